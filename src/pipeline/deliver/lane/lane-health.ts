import { LANE_AHEAD_MS } from "../../../domain/delay-tier.ts";
import { parseRetryAfterMs } from "../../../domain/retry-after.ts";
import { CircuitBreaker } from "./circuit-breaker.ts";
import type { CircuitState } from "./circuit-breaker.ts";
import { ConcurrencyLimit } from "./concurrency-limit.ts";
import { isSuccess } from "../try/conclude.ts";
import { LanePace } from "./lane-pace.ts";
import type { DeliveryOptions } from "../delivery-options.ts";
import type { Reply } from "../../../domain/outbound-request.ts";

/** Nothing waits in a lane for longer than this. */
export const MAX_WAIT_MS = LANE_AHEAD_MS;
/** A lane is idle once nothing has moved for this long, nor was to come back: tiers and queues may make that later. */
const IDLE_MS = 10_000;
/** How many tries may always wait, however slow the lane is thought to be. */
const ALWAYS_TAKEN = 500;

/** The state when a try started: how often the destination had been changed, and how many tries were in flight, itself included. */
export interface StartedFor {
  readonly changes: number;
  readonly inFlight: number;
}

/** One moment on both clocks, in ms: spans are measured by the steady one, dates in responses are wall clock. */
interface Moment {
  readonly steadyMs: number;
  readonly wallMs: number;
}

/** What a lane has learnt about its receiver from the answers. Times are steady, in ms, unless stated otherwise. */
export class LaneHealth {
  readonly #concurrency: ConcurrencyLimit;
  readonly #breaker: CircuitBreaker;
  #pace = new LanePace();
  #proven = false;
  #retryAfterMs = 0;
  #changes = 0;
  /** When something last moved: a try started, ended, or came in after idle time. Infinity before the first. */
  #movedMs = Number.POSITIVE_INFINITY;
  /** When the last try succeeded, or there was something to do again after idle time, whichever was later. Infinity before. */
  #inVainSinceMs = Number.POSITIVE_INFINITY;
  /** When the last of what was put off since the last success is to come back. */
  #backAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: DeliveryOptions) {
    this.#concurrency = new ConcurrencyLimit(options.concurrency);
    this.#breaker = new CircuitBreaker(options.breaker);
  }

  /** Whether the latest try succeeded. */
  get proven(): boolean {
    return this.#proven;
  }

  /** The most tries that may be in flight now. */
  get concurrency(): number {
    return this.#concurrency.value;
  }

  /** What `concurrency` may be soon. */
  get hopedConcurrency(): number {
    return this.#concurrency.hoped;
  }

  get isCircuitOpen(): boolean {
    return this.#breaker.isOpen;
  }

  /**
   * Returns how many tries may wait for their turn: two seconds' worth at the lane's pace, or as many as may be in flight where
   * the receiver may hang. `isBusy` says whether there is a try to be made or in flight: where all that waits is not due yet,
   * nothing hangs.
   */
  maxWaiting(nowMs: number, isBusy: boolean): number {
    if (isBusy && !this.#proven && this.stillForMs(nowMs) > MAX_WAIT_MS) return this.concurrency;
    const perSecond = this.#pace.perSecond(this.concurrency);
    return Math.max(ALWAYS_TAKEN, (perSecond * MAX_WAIT_MS) / 1_000);
  }

  /** Returns the pace at which deferred tasks may come back: see `LanePace`. */
  hopedPerSecond(nowMs: number): number {
    return this.#pace.hopedPerSecond(this.hopedConcurrency, nowMs);
  }

  circuit(nowMs: number): CircuitState {
    return this.#breaker.state(nowMs);
  }

  /** Returns how long every answer has been a failure, in ms; 0 if the last one was a success. */
  failingForMs(nowMs: number): number {
    return this.#breaker.failingForMs(nowMs);
  }

  /** Returns how long no try has started or ended while there was one to be made, in ms. */
  stillForMs(nowMs: number): number {
    return nowMs - this.#movedMs;
  }

  /** Returns how long there have been tries to make, and none has succeeded, in ms. */
  inVainForMs(nowMs: number): number {
    return Math.max(0, nowMs - this.#inVainSinceMs);
  }

  /** The longest wait the receiver has asked for since its last success, in ms. */
  get retryAfterMs(): number {
    return this.#retryAfterMs;
  }

  /** Allows for a new receiver: replies to tries that started before this no longer count. */
  onReceiverChanged(nowMs: number): void {
    this.#changes += 1;
    this.#movedMs = nowMs;
    this.#inVainSinceMs = nowMs;
    this.#retryAfterMs = 0;
    this.#concurrency.onReceiverChanged();
    this.#breaker.onReceiverChanged(nowMs);
  }

  /** Notes that there is a try to be made where there was nothing to do before. */
  onBusy(nowMs: number): void {
    const triedInVainMs = this.#proven ? Number.NEGATIVE_INFINITY : this.#movedMs;
    const wasIdle = nowMs > Math.max(triedInVainMs, this.#backAtMs) + IDLE_MS;
    this.#movedMs = nowMs;
    this.#inVainSinceMs = wasIdle ? nowMs : Math.min(this.#inVainSinceMs, nowMs);
  }

  /** Notes that a try is put off until `backAtMs`: until then the lane is not idle, even if it is empty. */
  onPutOff(backAtMs: number): void {
    this.#backAtMs = Math.max(this.#backAtMs, backAtMs);
  }

  /** Notes that a try starts; the result has to be given back with its reply. */
  onStart(nowMs: number, inFlight: number): StartedFor {
    this.#movedMs = nowMs;
    this.#breaker.onStart();
    return { changes: this.#changes, inFlight };
  }

  /** Learns from a reply, null if we cut the try off. For `newRunMs` see `Failure`. */
  onReply(
    { changes, inFlight }: StartedFor,
    reply: Reply | null,
    newRunMs: number | null,
    { steadyMs, wallMs }: Moment,
  ): void {
    this.#movedMs = steadyMs;
    if (changes !== this.#changes) return;
    if (reply === null) return this.#breaker.onAbandoned();
    this.#proven = isSuccess(reply);
    if (this.#proven) {
      this.#inVainSinceMs = steadyMs;
      this.#backAtMs = Number.NEGATIVE_INFINITY;
      if (this.#breaker.isOpen) this.#onRecovered();
      this.#concurrency.onSuccess(inFlight, steadyMs);
      this.#breaker.onSuccess();
      this.#retryAfterMs = 0;
    } else {
      this.#noteRetryAfter(reply, wallMs);
      if (reply.kind === "timeout") this.#concurrency.onTimeout(inFlight, steadyMs);
      else this.#concurrency.onFailure(inFlight, steadyMs);
      this.#breaker.onFailure(steadyMs, { timedOut: reply.kind === "timeout", newRunMs });
    }
    const answer = { latencyMs: reply.latencyMs, isSuccess: this.#proven };
    this.#pace.onReply(answer, this.#concurrency.value, steadyMs);
  }

  /** Forgets the outage: its timeouts would otherwise weigh on the pace long after, and the backlog come back at that pace. */
  #onRecovered(): void {
    this.#concurrency.onRecovered();
    this.#pace = new LanePace();
  }

  #noteRetryAfter(reply: Reply, wallMs: number): void {
    this.#retryAfterMs = Math.max(this.#retryAfterMs, parseRetryAfterMs(reply, wallMs) ?? 0);
  }
}
