import { copyFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { CommitRequest } from "../../../src/adapters/lmdb/commit/commit-protocol.ts";
import { CommitWriter } from "../../../src/adapters/lmdb/commit/commit-writer.ts";
import { EARLIER_SEED, encodeCommit } from "../../../src/adapters/lmdb/segments/segment-commit.ts";
import { makeSeededRandom } from "../../faults/harness/random.ts";
import type { SeededRandom } from "../../faults/harness/random.ts";
import { blobOf, CommitModel, GROUP } from "../../support/commit-model.ts";
import { FaultyDisk } from "../../support/faulty-disk.ts";
import { storeIn, temporaryDir } from "../../support/log-lmdb.ts";

/** `CRASH_SEEDS` is how many seeds to run; `CRASH_SEED` runs one alone. A seed gives the same run each time. */
const ONLY = process.env["CRASH_SEED"];
const SEEDS = ONLY === undefined ? Number(process.env["CRASH_SEEDS"] ?? 30) : 1;
const FIRST = Number(ONLY ?? 1);
/**
 * Seeds that fail if `firstNumber` believes the number of an incomplete commit. Changing the random choices or their order
 * changes all runs: such seeds must then be found again.
 */
const BELIEVED_NUMBER = [7, 82];

const MIB = 1024 * 1024;
const ONLY_ADDS = { removedBelow: [], removedBlobs: [], refs: [], starts: [] };
/** Ranges of blob sizes: small ones share a commit; the last range is larger than a segment takes. */
const SIZES = [
  ...Array.from({ length: 5 }, () => [1, 3_000] as const),
  [100_000, MIB],
  [100_000, MIB],
  [MIB, 3.9 * MIB],
  [MIB, 3.9 * MIB],
  [4 * MIB, 5 * MIB],
] as const;

/** A log's life of commits, trims, faults, restarts and crashes; after each opening it is compared with the model. */
class CrashRun {
  readonly #dir: string;
  readonly #seed: number;
  readonly #random: SeededRandom;
  readonly #disk: FaultyDisk;
  readonly #model = new CommitModel();
  readonly #history: string[] = [];
  #writer: CommitWriter | null = null;
  /** Emptied segments that readers may still hold. */
  #emptied: number[] = [];
  #nextSeq = 1;

  constructor(dir: string, seed: number) {
    this.#dir = dir;
    this.#seed = seed;
    this.#random = makeSeededRandom(seed);
    this.#disk = new FaultyDisk(this.#random);
  }

  async run(): Promise<void> {
    try {
      if (this.#chance(0.25)) this.#writeEarlierVersion();
      await this.#open();
      for (let steps = this.#below(60) + 30; steps > 0; steps -= 1) await this.#step();
      await this.#restart();
    } catch (cause) {
      const what = cause instanceof Error ? cause.message : String(cause);
      const steps = this.#history.slice(-30).join("; ");
      throw new Error(`CRASH_SEED=${this.#seed}: ${what}, after: ${steps}`, { cause });
    } finally {
      await this.#close();
      this.#disk[Symbol.dispose]();
    }
  }

  async #step(): Promise<void> {
    if (this.#chance(0.1)) this.#disk.canCreate = !this.#disk.canCreate;
    const kind = this.#random.next();
    if (kind < 0.06) await this.#restart();
    else if (kind < 0.1) await this.#crash(null);
    else if (kind < 0.2) await this.#crash(this.#addition());
    else if (kind < 0.3) this.#refuse(this.#addition());
    else if (kind < 0.4) this.#commit(this.#trim());
    else this.#commit(this.#addition());
    if (this.#chance(0.3)) await this.#disk.finishBeside();
  }

  #addition(): CommitRequest {
    const [least, most] = this.#random.pick(SIZES);
    const count = this.#chance(0.1) ? 0 : least === 1 ? this.#below(3) + 1 : 1;
    const blobs = Array.from({ length: count }, () =>
      blobOf(this.#nextSeq++, Math.floor(this.#random.between(least, most))),
    );
    return this.#request(blobs);
  }

  #trim(): CommitRequest {
    const share = this.#random.pick([0.3, 0.6, 0.9]);
    return {
      ...this.#addition(),
      removedBlobs: this.#model.kept.filter(() => this.#chance(share)),
    };
  }

  #request(blobs: CommitRequest["blobs"]): CommitRequest {
    const id = this.#nextSeq++;
    const groups = [[GROUP, String(id)]] as const;
    return { kind: "commit", id, blobs, rows: new Uint8Array(0), groups, ...ONLY_ADDS };
  }

  #commit(request: CommitRequest): void {
    const writer = this.#writer!;
    const isInLmdb = writer.commit(request);
    this.#model.answered(request);
    this.#note(isInLmdb ? "into LMDB" : "commit", request);
    if (isInLmdb || (this.#chance(0.9) && writer.applyIfDue()))
      this.#emptied.push(...writer.takeEmptied());
    if (this.#chance(0.7)) this.#reuse();
  }

  /** Commits while the disk fails: what a segment does not take goes into LMDB. */
  #refuse(request: CommitRequest): void {
    this.#disk.writeFault = this.#random.pick(["cut short", "not synced"]);
    this.#disk.canBlank = this.#chance(0.6);
    this.#history.push(`${this.#disk.writeFault}${this.#disk.canBlank ? "" : ", not blanked"}`);
    this.#commit(request);
    this.#disk.writeFault = "none";
    this.#disk.canBlank = true;
  }

  /** Cuts the power during the commit, or between commits if there is none. */
  async #crash(request: CommitRequest | null): Promise<void> {
    const { path } = storeIn(this.#dir);
    const asItWas = join(this.#dir, "crashed.mdb");
    this.#disk.onPowerFailure = () => copyFileSync(path, asItWas);
    if (request !== null) {
      this.#disk.writeFault = "power fails";
      this.#writer!.commit(request);
      // A commit that no segment takes is in LMDB, and was answered.
      if (this.#disk.isOff) this.#model.unanswered(request);
      else this.#model.answered(request);
    }
    this.#note(this.#disk.isOff ? "crash in" : "crash after", request);
    this.#disk.cutPower();
    await this.#close();
    this.#disk.switchOn();
    rmSync(`${path}-lock`);
    renameSync(asItWas, path);
    await this.#open();
  }

  async #restart(): Promise<void> {
    this.#note("restart", null);
    await this.#close();
    await this.#open();
  }

  async #open(): Promise<void> {
    const writer = new CommitWriter(storeIn(this.#dir));
    expect(writer.unreadable).toBeNull();
    this.#writer = writer;
    await this.#model.check(this.#dir, storeIn(this.#dir));
    this.#emptied = writer.takeEmptied().slice();
    if (this.#emptied.length === 0) writer.makeReady();
    else if (this.#chance(0.8)) this.#reuse();
  }

  async #close(): Promise<void> {
    const closed = this.#writer?.[Symbol.asyncDispose]();
    this.#writer = null;
    await this.#disk.finishBeside();
    await closed;
  }

  #reuse(): void {
    for (const segment of this.#emptied.splice(0)) this.#writer!.reuse(segment);
  }

  /** Writes a log of an earlier version: its checksums use no secret, and none of its commits needs to be in LMDB. */
  #writeEarlierVersion(): void {
    const parts: Uint8Array[] = [];
    const count = this.#below(6);
    for (let number = 1; number <= count; number += 1) {
      const request = this.#request([blobOf(this.#nextSeq++, this.#below(5_000) + 1)]);
      parts.push(...encodeCommit(number, request, EARLIER_SEED).parts);
      this.#model.answered(request);
    }
    const commits = Buffer.concat(parts);
    const file = Buffer.alloc(this.#random.pick([commits.length, 4 * MIB, 8 * MIB, 16 * MIB]));
    commits.copy(file);
    writeFileSync(join(this.#dir, "log.wal"), file);
    this.#history.push(`${count} commits of an earlier version`);
  }

  #note(what: string, request: CommitRequest | null): void {
    const { blobs = [], removedBlobs = [] } = request ?? {};
    const sizes = blobs.map(({ seq, bytes }) => ` ${seq} (${bytes.length} bytes)`).join(",");
    const removed = removedBlobs.length === 0 ? "" : `, ${removedBlobs.length} removed`;
    this.#history.push(`${what}${sizes}${removed}`);
  }

  #chance(share: number): boolean {
    return this.#random.next() < share;
  }

  #below(most: number): number {
    return Math.floor(this.#random.between(0, most));
  }
}

async function runSeed(seed: number): Promise<void> {
  await using dir = await temporaryDir();
  await new CrashRun(dir.path, seed).run();
}

it(
  "what was answered is there and what was removed is not, whatever the disk refuses and wherever a crash cuts a write",
  async () => {
    const failed: string[] = [];
    for (let seed = FIRST; seed < FIRST + SEEDS; seed += 1)
      await runSeed(seed).catch((error: Error) => failed.push(error.message));
    expect(failed, failed.join("\n")).toEqual([]);
  },
  60_000 + SEEDS * 10_000,
);

it.runIf(ONLY === undefined).each(BELIEVED_NUMBER)(
  "regression: seed %i, in which commits were lost behind one that a crash cut short at the beginning of a segment",
  runSeed,
);
