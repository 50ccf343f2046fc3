import { parentPort, workerData } from "node:worker_threads";
import type { CommitRequest, CommitWorkerData, FromCommitThread } from "./commit-protocol.ts";
import { CommitWriter } from "./commit-writer.ts";

/**
 * The commit thread: every message is one commit, all or nothing, durable when answered.
 * A thread of its own because lmdb-js' asynchronous writes go on past a failed put within a transaction.
 */
const { path, aheadPath, mapSizeBytes } = workerData as CommitWorkerData;
const port = parentPort!;
const writer = new CommitWriter(path, aheadPath, mapSizeBytes);

function commit(request: CommitRequest): void {
  let error: string | null = null;
  let applied = false;
  try {
    applied = writer.commit(request);
  } catch (cause) {
    error = cause instanceof Error ? cause.message : String(cause);
  }
  if (applied) tell({ kind: "applied", id: request.id });
  const blobs = request.blobs.map((blob) => blob.bytes);
  tell({ kind: "committed", id: request.id, blobs, error }, blobs);
  // After the answer: those who wait for it do not wait for this.
  if (!applied && writer.applyIfDue()) tell({ kind: "applied", id: request.id });
}

function tell(message: FromCommitThread, transfer: ArrayBuffer[] = []): void {
  port.postMessage(message, transfer);
}

port.on("message", (request: CommitRequest | "close") => {
  if (request === "close") void writer.close().then(() => port.close());
  else commit(request);
});
port.postMessage("ready");
