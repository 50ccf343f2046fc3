import type { RateLimitWindow } from "../../../domain/enums.ts";
import { rateWindowMs, SlidingWindow, tokenReturnMs } from "../../../domain/rate-limit.ts";
import type { Starts } from "../../../domain/rate-limit.ts";
import { countedUntil } from "./counted-until.ts";
import { startsOf } from "./limits-codec.ts";
import type { Block, LimitRecord } from "./limits-codec.ts";

const BLOCKS_PER_WINDOW = 20;
const MAX_BLOCK_MS = 60_000;
/** How long an unanswered request may remain unseen by a busy receiver: a share of the window, but at least `MIN_UNSEEN_MS`. */
const UNSEEN_SHARE = 0.1;
const MIN_UNSEEN_MS = 200;

export type StartDecision =
  | { readonly kind: "go" }
  | { readonly kind: "wait"; readonly untilMs: number }
  /** A block has to be written to the `limits` log first: see `nextBlock`. */
  | { readonly kind: "reserve" };

export interface Limit {
  readonly max: number;
  readonly window: RateLimitWindow;
  /** The timeout of a whole try: how long after its start a request may still be waiting for its connection. */
  readonly timeoutMs: number;
}

type KnownStarts = Pick<LimitRecord, "starts" | "block">;

/** How many tries may start, and until when, once the block that stands for them is durable. */
export interface Grant {
  readonly untilMs: number;
  readonly count: number;
}

/** One started try: its token comes back one window after the latest moment the receiver may have seen it. */
export interface StartedTry {
  readonly startedMs: number;
  /** When the request went out; null while it waits for a connection and the receiver cannot have seen it. */
  sentMs: number | null;
  seenMs: number | null;
}

/**
 * The limiter of one destination. `planned` hands out future slots to tasks that are put off, so that each comes back when
 * there is room for it; `actual` decides at the moment of the start, and it alone enforces the limit. All times are in ms of
 * one steady clock.
 */
export class DestinationRateLimiter {
  readonly max: number;
  readonly window: RateLimitWindow;
  readonly #windowMs: number;
  readonly #unseenMs: number;
  readonly #timeoutMs: number;
  #planned: SlidingWindow;
  readonly #actual: SlidingWindow;
  #started: StartedTry[] = [];
  #grant: Grant | null = null;
  #left = 0;

  /** `known` is the destination's record in the `limits` log, or the starts that an earlier limiter knew of. */
  constructor({ max, window, timeoutMs }: Limit, known: KnownStarts | null, nowMs: number) {
    this.max = max;
    this.window = window;
    this.#timeoutMs = timeoutMs;
    this.#windowMs = rateWindowMs(window);
    this.#unseenMs = Math.max(MIN_UNSEEN_MS, this.#windowMs * UNSEEN_SHARE);
    this.#planned = new SlidingWindow(tokenReturnMs(window), max);
    this.#actual = new SlidingWindow(tokenReturnMs(window), max);
    if (known !== null) this.learn(known, nowMs);
  }

  /** Counts starts that were made elsewhere; to be called only before the first one here. */
  learn(known: KnownStarts, nowMs: number): void {
    for (const [timeMs, count] of startsOf(known).toSorted(([one], [other]) => one - other)) {
      // Not later than now: whoever recorded it sends nothing any more.
      const atMs = Math.min(timeMs, nowMs);
      if (atMs + tokenReturnMs(this.window) <= nowMs) continue;
      this.#actual.add(atMs, count);
      this.#planned.add(atMs, count);
    }
  }

  /** Counts the window as used up after a takeover: starts under a limit per second are not recorded. */
  useUp(nowMs: number): void {
    this.#actual.add(nowMs, this.max);
    this.#planned.add(nowMs, this.max);
  }

  get isPersistent(): boolean {
    return this.window !== "second";
  }

  /** Returns a slot for a task: a start time that no other task gets. */
  plan(notBeforeMs: number): number {
    return this.#planned.claim(notBeforeMs);
  }

  /** Returns whether a start at `timeMs` still counts; in the plan, so does one that was planned for then but not made. */
  isCounted(timeMs: number, nowMs: number): boolean {
    return timeMs + tokenReturnMs(this.window) > nowMs;
  }

  /** Drops the slots that were given out: only starts that were made stay in the plan. */
  dropPlan(nowMs: number): void {
    this.#planned = this.#windowOfStarts(nowMs);
    this.#planned.add(nowMs, this.#started.length);
  }

  /** Returns when the next `count` tries may start, beside those already started, if all tries in flight are answered now. */
  nextStarts(notBeforeMs: number, nowMs: number, count: number): number[] {
    const window = this.#windowOfStarts(nowMs);
    for (const { sentMs } of this.#started)
      window.add(Math.max(sentMs ?? nowMs, nowMs - this.#slackMs));
    return Array.from({ length: count }, () => window.claim(notBeforeMs));
  }

  /** Returns the slot that `plan` would give now, without taking it. */
  nextSlotMs(nowMs: number): number {
    return this.#planned.earliest(Math.max(nowMs, this.#planned.lastMs));
  }

  admit(nowMs: number): StartDecision {
    this.#settle(nowMs);
    const atMs = this.#actual.earliest(nowMs, 1, this.#started.length);
    if (atMs > nowMs) {
      const oldest = this.#started[0];
      const seenLatestMs =
        oldest === undefined ? Number.POSITIVE_INFINITY : (oldest.sentMs ?? nowMs) + this.#unseenMs;
      return { kind: "wait", untilMs: Math.min(atMs, Math.max(nowMs + 1, seenLatestMs)) };
    }
    if (!this.isPersistent) return { kind: "go" };
    if (this.#grant !== null && this.#left > 0 && nowMs < this.#grant.untilMs)
      return { kind: "go" };
    return { kind: "reserve" };
  }

  /** Starts a try. To be called only right after `admit` returned `go`, with the same time. */
  start(nowMs: number): StartedTry {
    const started: StartedTry = { startedMs: nowMs, sentMs: null, seenMs: null };
    this.#started.push(started);
    this.#left -= 1;
    return started;
  }

  /** Notes that the request goes out: DNS, connection and TLS may have taken their time. */
  send(started: StartedTry, nowMs: number): void {
    started.sentMs ??= nowMs;
  }

  /** Notes that the answer is here: the receiver cannot have seen the request later than now. */
  finish(started: StartedTry, nowMs: number): void {
    started.seenMs = nowMs;
    this.#settle(nowMs);
  }

  /**
   * Returns the next block to write, no larger than the window still allows. Its record includes the starts of an unfinished
   * block. Expected to take `writeMs` until it is durable, it holds for that much longer, and is as much larger.
   */
  nextBlock(
    destinationId: string,
    nowMs: number,
    writeMs = 0,
  ): { record: LimitRecord; grant: Grant } {
    this.#settle(nowMs);
    const usualMs = Math.min(this.#windowMs / BLOCKS_PER_WINDOW, MAX_BLOCK_MS);
    const holdsMs = usualMs + writeMs;
    const wanted = Math.ceil(((this.max / BLOCKS_PER_WINDOW) * holdsMs) / usualMs);
    const free = this.max - this.#actual.used(nowMs) - this.#started.length;
    const count = Math.max(1, Math.min(wanted, free));
    const untilMs = nowMs + holdsMs;
    const block: Block = { untilMs: untilMs + this.#timeoutMs, count };
    return { record: this.#record(destinationId, nowMs, block), grant: { untilMs, count } };
  }

  /** Admits the tries of a block that is now durable. */
  grant(grant: Grant): void {
    this.#grant = grant;
    this.#left = grant.count;
  }

  /**
   * Returns the limiter for a changed limit. It counts tries in flight as they go out and, if its window is longer, the
   * `earlier` starts that this one no longer counts.
   */
  successor(limit: Limit, earlier: readonly Starts[], nowMs: number): DestinationRateLimiter {
    const known = { starts: [...earlier, ...this.#actual.starts(nowMs)], block: null };
    const successor = new DestinationRateLimiter(limit, known, nowMs);
    successor.#planned.add(nowMs, this.#started.length);
    successor.#started = [...this.#started];
    return successor;
  }

  /** Returns what the next owner has to know. */
  snapshot(destinationId: string, nowMs: number): LimitRecord {
    return this.#record(destinationId, nowMs, null);
  }

  #record(destinationId: string, nowMs: number, block: Block | null): LimitRecord {
    const starts = this.#actual.starts(nowMs);
    // An unanswered try counts as seen at the latest possible moment.
    for (const { startedMs, sentMs } of this.#started) {
      const sentLatestMs = sentMs ?? Math.max(nowMs, startedMs + this.#timeoutMs);
      starts.push([sentLatestMs + this.#unseenMs, 1]);
    }
    return { destinationId, starts, block, countedUntil: countedUntil(this.window, nowMs) };
  }

  /** Returns a new window that counts the same starts as `actual`. */
  #windowOfStarts(nowMs: number): SlidingWindow {
    const window = new SlidingWindow(tokenReturnMs(this.window), this.max);
    for (const [timeMs, count] of this.#actual.starts(nowMs)) window.add(timeMs, count);
    return window;
  }

  /** What a token's return already grants beyond the window for requests underway: 5 % of it, at most a second. */
  get #slackMs(): number {
    return tokenReturnMs(this.window) - this.#windowMs;
  }

  #settle(nowMs: number): void {
    const open: StartedTry[] = [];
    for (const started of this.#started) {
      const { startedMs, sentMs, seenMs } = started;
      const latestMs = (sentMs ?? nowMs) + this.#unseenMs;
      if (seenMs === null && nowMs < latestMs) open.push(started);
      else
        this.#actual.add(
          Math.max(sentMs ?? startedMs, Math.min(seenMs ?? latestMs, latestMs) - this.#slackMs),
        );
    }
    if (open.length < this.#started.length) this.#started = open;
  }
}
