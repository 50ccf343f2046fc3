import { copyFileSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { CommitRequest } from "../../../src/adapters/lmdb/commit/commit-protocol.ts";
import { CommitWriter } from "../../../src/adapters/lmdb/commit/commit-writer.ts";
import { blobOf, CommitModel, GROUP } from "../../support/commit-model.ts";
import { storeIn, temporaryDir } from "../../support/log-lmdb.ts";
import { SyncedDisk } from "../../support/synced-disk.ts";

const MIB = 1024 * 1024;

/** A log on a disk of which a power cut takes all that was not synced. */
class PowerCutLog {
  readonly #base: string;
  readonly #dir: string;
  readonly #disk: SyncedDisk;
  readonly #model = new CommitModel();
  #writer: CommitWriter | null = null;
  #next = 1;

  constructor(base: string, disk: SyncedDisk) {
    this.#base = base;
    this.#dir = join(base, "data/log");
    this.#disk = disk;
  }

  open(): void {
    this.#writer = new CommitWriter(storeIn(this.#dir));
    expect(this.#writer.unreadable).toBeNull();
  }

  async close(): Promise<void> {
    await this.#writer?.[Symbol.asyncDispose]();
    this.#writer = null;
  }

  /** Notes that LMDB has synced its file. */
  indexSynced(): void {
    this.#disk.synced(storeIn(this.#dir).path);
  }

  /** @returns whether it is in LMDB, which has synced it or was killed before it had */
  commit(sizeBytes: number, removedBlobs: readonly number[] = []): boolean {
    const id = this.#next++;
    const request: CommitRequest = {
      kind: "commit",
      id,
      blobs: [blobOf(id, sizeBytes)],
      rows: new Uint8Array(0),
      groups: [[GROUP, String(id)]],
      removedBelow: [],
      removedBlobs,
      refs: [],
      starts: [],
    };
    const isInLmdb = this.#writer!.commit(request);
    this.#model.answered(request);
    return isInLmdb;
  }

  /** Commits as a process does that is killed after it wrote to a segment, before it synced it. */
  async commitAndKill(sizeBytes: number): Promise<void> {
    const { path } = storeIn(this.#dir);
    const asItWas = join(this.#base, "killed.mdb");
    copyFileSync(path, asItWas);
    this.#disk.lose(".segment");
    this.commit(sizeBytes);
    this.#disk.lose(null);
    await this.close();
    rmSync(`${path}-lock`);
    renameSync(asItWas, path);
    this.indexSynced();
  }

  reuseEmptied(): readonly number[] {
    const emptied = this.#writer!.takeEmptied();
    for (const segment of emptied) this.#writer!.reuse(segment);
    return emptied;
  }

  /** Opens what a power cut now would leave. @throws {Error} that says what is wrong with it */
  async checkAfterPowerCut(): Promise<void> {
    const left = join(this.#base, "left");
    this.#disk.leave(left, join(this.#base, "data"));
    const dir = join(left, "log");
    const writer = new CommitWriter(storeIn(dir));
    try {
      expect(writer.unreadable).toBeNull();
      await this.#model.check(dir, storeIn(dir));
    } finally {
      await writer[Symbol.asyncDispose]();
      rmSync(left, { recursive: true });
    }
  }
}

async function withLog(use: (log: PowerCutLog) => Promise<void>): Promise<void> {
  await using dir = await temporaryDir();
  mkdirSync(join(dir.path, "data"));
  using disk = new SyncedDisk(dir.path);
  const log = new PowerCutLog(dir.path, disk);
  try {
    await use(log);
  } finally {
    await log.close();
  }
}

it("what was answered is there after a power cut that takes all that was not synced, names of files too: the first start's log was gone as a whole", async () => {
  await withLog(async (log) => {
    log.open();
    log.indexSynced();
    // Several segments, and one that is too large for any.
    for (const sizeBytes of [10, 3 * MIB, 3 * MIB, 20, 3 * MIB, 5 * MIB, 3 * MIB, 30]) {
      if (log.commit(sizeBytes)) log.indexSynced();
      await log.checkAfterPowerCut();
    }
  });
}, 60_000);

it("regression: a process killed as it trimmed, then a power cut: what the trim gave back had been written anew, and the index from before it could not be opened", async () => {
  await withLog(async (log) => {
    log.open();
    for (let count = 0; count < 3; count += 1) log.commit(3 * MIB);
    await log.close();
    log.indexSynced();
    log.open();
    // The kill comes before LMDB's sync.
    expect(log.commit(10, [1, 2])).toBe(true);
    await log.close();
    log.open();
    expect(log.reuseEmptied()).toContain(1);
    for (let count = 0; count < 6; count += 1) log.commit(3 * MIB);
    await log.checkAfterPowerCut();
  });
}, 60_000);

it("what a process wrote that was killed before it synced it is synced when it is found: readers had it, and a power cut would leave an index to what is not there", async () => {
  await withLog(async (log) => {
    log.open();
    log.commit(10);
    log.indexSynced();
    await log.commitAndKill(3 * MIB);
    log.open();
    log.indexSynced();
    await log.checkAfterPowerCut();
  });
}, 60_000);

it("a segment that was made ahead is there after a power cut, with what was answered since", async () => {
  await withLog(async (log) => {
    log.open();
    // More than half of a segment: another is made beside the next commits, and closing waits for it.
    for (let count = 0; count < 2; count += 1) log.commit(3 * MIB);
    await log.close();
    log.indexSynced();
    log.open();
    expect(log.reuseEmptied()).toEqual([2]);
    log.commit(3 * MIB);
    await log.checkAfterPowerCut();
  });
}, 60_000);
