import { parentPort, workerData } from "node:worker_threads";
import { asBinary } from "lmdb";
import type { CommitReply, CommitRequest, CommitWorkerData } from "./commit-protocol.ts";
import { openEnvironment } from "./environment.ts";
import { ROW_BYTES, ROW_KEY_BYTES, seqKey } from "./layout.ts";
import { RoomAhead } from "./room-ahead.ts";

/**
 * The commit thread: every message is one synchronous transaction, all or nothing, durable when answered.
 * A thread of its own because lmdb-js' asynchronous writes go on past a failed put within a transaction.
 */
const data = workerData as CommitWorkerData;
const port = parentPort!;
const environment = openEnvironment(data.path, data.mapSizeBytes);
const room = new RoomAhead(data.path, () => {
  const { lastPageNumber, pageSize } = environment.root.getStats() as LmdbStats;
  return (lastPageNumber + 1) * pageSize;
});

interface LmdbStats {
  readonly lastPageNumber: number;
  readonly pageSize: number;
}

function write(request: CommitRequest): void {
  const { blobs, index, unindexed, starts, refs, groups } = environment;
  for (const blob of request.blobs)
    blobs.putSync(seqKey(blob.seq), asBinary(Buffer.from(blob.bytes)) as Buffer);
  const rows = Buffer.from(request.rows.buffer);
  for (let at = 0; at < request.rows.length; at += ROW_BYTES)
    index.putSync(
      rows.subarray(at, at + ROW_KEY_BYTES),
      rows.subarray(at + ROW_KEY_BYTES, at + ROW_BYTES),
    );
  if (request.unindexed !== null)
    unindexed.putSync(seqKey(request.unindexed.commit), Buffer.from(request.unindexed.rows.buffer));
  for (const commit of request.indexedCommits) unindexed.removeSync(seqKey(commit));
  for (const key of request.removedRows) index.removeSync(Buffer.from(key));
  for (const seq of request.removedBlobs) {
    blobs.removeSync(seqKey(seq));
    refs.removeSync(seqKey(seq));
  }
  for (const [seq, left] of request.refs) {
    const value = Buffer.alloc(2);
    value.writeUInt16BE(left);
    refs.putSync(seqKey(seq), value);
  }
  for (const [key, offset] of request.starts) starts.putSync(Buffer.from(key), seqKey(offset));
  for (const [key, json] of request.groups) groups.putSync(key, json);
}

port.on("message", (request: CommitRequest | "close") => {
  if (request === "close") {
    room[Symbol.dispose]();
    void environment.root.close().then(() => port.close());
    return;
  }
  let error: string | null = null;
  try {
    room.make(request.blobs.reduce((sum, blob) => sum + blob.bytes.byteLength, 0));
    environment.root.transactionSync(() => write(request));
  } catch (cause) {
    error = cause instanceof Error ? cause.message : String(cause);
  }
  const buffers = request.blobs.map((blob) => blob.bytes);
  const reply: CommitReply = { id: request.id, blobs: buffers, error };
  port.postMessage(reply, buffers);
});
port.postMessage("ready");
