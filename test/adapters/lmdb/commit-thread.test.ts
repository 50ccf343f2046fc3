import { EventEmitter } from "node:events";
import type { Worker } from "node:worker_threads";
import { expect, it, vi } from "vitest";
import { CommitThread } from "../../../src/adapters/lmdb/commit/commit-thread.ts";
import type {
  FromCommitThread,
  ToCommitThread,
} from "../../../src/adapters/lmdb/commit/commit-protocol.ts";
import { nextTurn } from "../../../src/domain/next-turn.ts";
import { blobOf } from "../../support/commit-model.ts";
import { storeIn, temporaryDir } from "../../support/log-lmdb.ts";

/** A scripted stand-in for a thread, since a test cannot choose the moment at which a real one dies. */
class ScriptedWorker extends EventEmitter {
  readonly received: ToCommitThread[] = [];

  constructor() {
    super();
    setImmediate(() => this.tell({ kind: "ready", unreadable: null }));
  }

  postMessage(message: ToCommitThread): void {
    this.received.push(message);
  }

  tell(message: FromCommitThread): void {
    this.emit("message", message);
  }
}

const MIB = 1024 * 1024;
const COMMIT = {
  blobs: [],
  rows: new Uint8Array(0),
  groups: [],
  removedBelow: [],
  removedBlobs: [],
  refs: [],
  starts: [],
};

function openThread() {
  const workers: ScriptedWorker[] = [];
  const listener = { applied: () => {}, emptied: () => {}, unreadable: () => {} };
  const data = { path: "", segmentsDir: "", mapSizeBytes: 1 };
  const thread = new CommitThread(data, listener, () => {
    const worker = new ScriptedWorker();
    workers.push(worker);
    return worker as EventEmitter as Worker;
  });
  /** Returns the nth thread once it was sent a commit. */
  const busy = async (index: number): Promise<ScriptedWorker> => {
    await vi.waitFor(() => expect(workers[index]?.received).toHaveLength(1), { timeout: 15_000 });
    return workers[index]!;
  };
  return { thread, busy };
}

it("the end of a thread that another has replaced is not taken for the end of that one, nor its last answer for an answer of that one", async () => {
  const { thread, busy } = openThread();
  await thread.start();
  const first = thread.commit(COMMIT);
  const died = await busy(0);
  died.emit("error", new Error("out of memory"));
  await expect(first).rejects.toMatchObject({ code: "log_outcome_unknown" });

  await thread.start();
  const second = thread.commit(COMMIT);
  const next = await busy(1);
  died.emit("exit", 1);
  let answered = false;
  void second.then(() => {
    answered = true;
  });
  died.tell({ kind: "committed", id: 1, error: null });
  await nextTurn();
  expect(answered).toBe(false);
  next.tell({ kind: "committed", id: 2, error: null });
  await expect(second).resolves.toBe(2);
});

it("a thread that ends leaves the outcome of what it had unknown, and nothing is committed before it is started again", async () => {
  const { thread, busy } = openThread();
  await thread.start();
  const first = thread.commit(COMMIT);
  (await busy(0)).emit("exit", 1);
  await expect(first).rejects.toMatchObject({ code: "log_outcome_unknown" });
  await expect(thread.commit(COMMIT)).rejects.toMatchObject({ code: "log_outcome_unknown" });

  await thread.start();
  const second = thread.commit(COMMIT);
  (await busy(1)).tell({
    kind: "committed",
    id: 2,
    error: { code: "not_written", message: "no room" },
  });
  await expect(second).rejects.toMatchObject({ code: "log_unavailable", isLockedUp: false });
});

it("tells what has come into LMDB once 16 MiB wait for it: until then it is kept in memory", async () => {
  await using dir = await temporaryDir();
  const applied: number[] = [];
  const listener = {
    applied: (id: number) => applied.push(id),
    emptied: () => {},
    unreadable: () => {},
  };
  const { path, segmentsDir, mapSizeBytes } = storeIn(dir.path);
  await using thread = new CommitThread({ path, segmentsDir, mapSizeBytes }, listener);
  await thread.start();
  const commit = (seq: number) => thread.commit({ ...COMMIT, blobs: [blobOf(seq, 3 * MIB)] });
  for (const seq of [1, 2, 3, 4, 5]) expect(await commit(seq)).toBe(seq);
  expect(applied).toEqual([]);
  expect(await commit(6)).toBe(6);
  await vi.waitFor(() => expect(applied).toEqual([6]), { timeout: 15_000 });
});
