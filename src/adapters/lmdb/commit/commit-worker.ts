import { parentPort, workerData } from "node:worker_threads";
import type {
  CommitError,
  CommitRequest,
  CommitWorkerData,
  FromCommitThread,
  ToCommitThread,
} from "./commit-protocol.ts";
import { CommitWriter } from "./commit-writer.ts";

/**
 * The commit thread: every message is one commit, all or nothing, durable when answered.
 * A thread of its own because lmdb-js' asynchronous writes go on past a failed put within a transaction.
 */
const port = parentPort!;
const writer = new CommitWriter(workerData as CommitWorkerData);
/** The rest in front of each segment that is cleared out beside the trims: no commit is made meanwhile, for some milliseconds. */
const CLEAR_OUT_AFTER_MS = 250;
let clearingOut: NodeJS.Timeout | null = null;

function commit(request: CommitRequest): void {
  let error: CommitError | null = null;
  let applied = false;
  try {
    applied = writer.commit(request);
  } catch (cause) {
    error = errorOf(cause);
  }
  if (applied) tellApplied(request.id);
  tell({ kind: "committed", id: request.id, error });
  // After the answer, so that whoever waits for it does not wait for this.
  if (!applied && writer.applyIfDue()) tellApplied(request.id);
  if (request.removedBlobs.length > 0) clearOutRest();
}

/** Clears out what a trim has left thinly filled, one segment at a time: for hours no further trim may have anything to remove. */
function clearOutRest(): void {
  if (clearingOut !== null) return;
  clearingOut = setTimeout(() => {
    clearingOut = null;
    if (!writer.clearOutSparsest()) return;
    tellEmptied();
    clearOutRest();
  }, CLEAR_OUT_AFTER_MS);
}

function close(): void {
  if (clearingOut !== null) clearTimeout(clearingOut);
  void writer[Symbol.asyncDispose]().then(() => port.close());
}

function errorOf(cause: unknown): CommitError {
  if (!(cause instanceof Error)) return { code: "not_written", message: String(cause) };
  return { code: writer.isLockedUp ? "store_locked_up" : "not_written", message: cause.message };
}

function tellApplied(id: number): void {
  tell({ kind: "applied", id });
  tellEmptied();
}

/** @returns how many there were */
function tellEmptied(): number {
  const emptied = writer.takeEmptied();
  for (const segment of emptied) tell({ kind: "emptied", segment });
  return emptied.length;
}

function tell(message: FromCommitThread): void {
  port.postMessage(message);
}

port.on("message", (message: ToCommitThread) => {
  if (message.kind === "commit") commit(message);
  else if (message.kind === "reuse") writer.reuse(message.segment);
  else close();
});
// A segment that is given back is there before the first commit, so none needs to be made.
if (tellEmptied() === 0) writer.makeReady();
clearOutRest();
tell({ kind: "ready", unreadable: writer.unreadable });
