import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import { chooseRelease } from "./choose-release.ts";
import type { Release } from "./choose-release.ts";
import { decodeHeld } from "./held-codec.ts";
import type { HeldHost } from "./held-host.ts";
import type { HeldIndex } from "./held-index.ts";
import { readHeld } from "./read-held.ts";
import type { HeldRead } from "./read-held.ts";
import { ReleaseQueue } from "./release-queue.ts";

/** Maximum tasks, and so destinations, of one pass. */
const PASS_TASKS = 2_000;
/** How often a lane without room is checked again. */
const ROOM_CHECK_MS = 200;

/** When a destination is served again: at once, when its lane may have room, or when something changes. */
export type Again = "now" | "later" | "no";

/** What a pass does with what it chose and read. */
export interface ReleaseSteps {
  isInTransit(destinationId: string): boolean;
  /** Makes durable what becomes of the tasks. */
  letGo(release: Release, tasks: ReadonlyMap<number, DeliveryTask>): Promise<Again>;
  /** Gives up tasks whose records are no longer in the log. */
  forget(destinationId: string, offsets: readonly number[]): void;
}

/**
 * Lets held tasks go, one pass at a time. A pass reads the log once for many destinations, whose tasks lie side by side there:
 * were it read for each of them, the work would grow with the square of their number.
 */
export class ReleasePasses {
  readonly #host: HeldHost;
  readonly #index: HeldIndex;
  readonly #steps: ReleaseSteps;
  readonly #queue: ReleaseQueue;
  readonly #checks = new Map<string, () => void>();
  #isPassing = false;

  constructor(host: HeldHost, index: HeldIndex, steps: ReleaseSteps) {
    this.#host = host;
    this.#index = index;
    this.#steps = steps;
    this.#queue = new ReleaseQueue(index);
  }

  /** Has the destination served by one of the next passes. */
  add(destinationId: string): void {
    if (!this.#index.has(destinationId)) return;
    this.#queue.add(destinationId);
    if (!this.#isPassing) void this.#run();
  }

  /** Cancels all checks, and what waits for a pass. */
  close(): void {
    this.#queue.clear();
    for (const cancel of this.#checks.values()) cancel();
    this.#checks.clear();
  }

  async #run(): Promise<void> {
    this.#isPassing = true;
    // Those that are added in the same turn go together.
    await Promise.resolve();
    while (!this.#queue.isEmpty && this.#host.mayStart())
      await this.#pass(this.#queue.take(PASS_TASKS));
    // The sweep comes back to what is left when nothing may start.
    this.#queue.clear();
    this.#isPassing = false;
  }

  async #pass(destinationIds: readonly string[]): Promise<void> {
    const releases = await this.#choose(destinationIds);
    if (releases.length === 0 || !this.#host.mayStart()) return;
    const read = await this.#read(releases);
    if (read === null) return;
    await Promise.all(
      releases.map((release) =>
        this.#guard(release.destinationId, () => this.#serve(release, read)),
      ),
    );
  }

  /** Returns what may go, equally many tasks of each destination: these are close together in the log. */
  async #choose(destinationIds: readonly string[]): Promise<Release[]> {
    const chosen = await Promise.all(
      destinationIds.map((destinationId) =>
        this.#guard(destinationId, () => this.#chooseOf(destinationId)),
      ),
    );
    const releases = chosen.filter((release) => release !== null);
    const share = Math.floor(PASS_TASKS / releases.length);
    return releases.map(({ destinationId, offsets, end }) => ({
      destinationId,
      offsets: offsets.slice(0, share),
      end,
    }));
  }

  async #chooseOf(destinationId: string): Promise<Release | null> {
    if (this.#steps.isInTransit(destinationId)) return null;
    const release = await chooseRelease(this.#host, this.#index, destinationId);
    if (typeof release === "object") return release;
    this.#again(destinationId, release);
    return null;
  }

  async #read(releases: readonly Release[]): Promise<HeldRead | null> {
    try {
      const read = await readHeld(
        this.#host.partition,
        releases.flatMap(({ offsets }) => offsets),
      );
      // Another round would serve others first.
      const unreached = releases.filter(({ offsets }) => offsets[0]! >= read.passedTo);
      if (read.isCut) this.#queue.putBack(unreached.map(({ destinationId }) => destinationId));
      return read;
    } catch (error) {
      this.#host.logger.error({ destinations: releases.length, err: error }, "held.release_failed");
      return null;
    }
  }

  async #serve(release: Release, { values, passedTo }: HeldRead): Promise<void> {
    const { destinationId, offsets } = release;
    const tasks = new Map<number, DeliveryTask>();
    const lost: number[] = [];
    for (const offset of offsets) {
      const value = values.get(offset);
      const entry = value === undefined ? null : decodeHeld(value);
      if (entry?.kind === "task") tasks.set(offset, entry.task);
      else if (entry === null && offset < passedTo) lost.push(offset);
    }
    if (lost.length > 0) this.#forget(destinationId, lost);
    if (tasks.size > 0) this.#again(destinationId, await this.#steps.letGo(release, tasks));
    else if (lost.length > 0) this.add(destinationId);
  }

  #forget(destinationId: string, lost: readonly number[]): void {
    this.#host.logger.error({ destinationId, count: lost.length }, "held.records_lost");
    this.#steps.forget(destinationId, lost);
  }

  #again(destinationId: string, again: Again): void {
    if (again === "now") this.add(destinationId);
    if (again === "later") this.#addLater(destinationId);
  }

  /** Keeps one timer per destination, however often it is called. */
  #addLater(destinationId: string): void {
    if (this.#checks.has(destinationId) || !this.#host.mayStart()) return;
    const cancel = this.#host.clock.schedule(ROOM_CHECK_MS, () => {
      this.#checks.delete(destinationId);
      this.add(destinationId);
    });
    this.#checks.set(destinationId, cancel);
  }

  /** Resolves with null if the work failed. That concerns one destination; the sweep comes back to it. */
  async #guard<T>(destinationId: string, work: () => Promise<T>): Promise<T | null> {
    try {
      return await work();
    } catch (error) {
      this.#host.logger.error({ destinationId, err: error }, "held.release_failed");
      return null;
    }
  }
}
