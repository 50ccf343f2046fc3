import { parseRetryAfterMs } from "../../../domain/retry-after.ts";
import { CircuitBreaker } from "./circuit-breaker.ts";
import type { CircuitState } from "./circuit-breaker.ts";
import { ConcurrencyLimit } from "./concurrency-limit.ts";
import { isSuccess } from "../try/conclude.ts";
import { LanePace } from "./lane-pace.ts";
import type { DeliveryOptions, Reply } from "../ports.ts";

/** Longer than this nothing waits in a lane. */
export const MAX_WAIT_MS = 2_000;
/** However slow the lane is thought to be. */
const ALWAYS_TAKEN = 500;

/** When a try started: how often the destination had been changed, and how many tries were in flight, with it. */
export interface StartedFor {
  readonly changes: number;
  readonly inFlight: number;
}

/** One moment by both clocks, in ms: spans are measured by the steady one, dates in answers are of the wall clock. */
interface Moment {
  readonly steadyMs: number;
  readonly wallMs: number;
}

/** What a lane has learnt of its receiver from the answers. Times are steady, in ms, unless said otherwise. */
export class LaneHealth {
  readonly #concurrency: ConcurrencyLimit;
  readonly #breaker: CircuitBreaker;
  #pace = new LanePace();
  #proven = false;
  #retryAfterMs = 0;
  #changes = 0;
  /** Infinity: nothing was to be made yet. */
  #movedMs = Number.POSITIVE_INFINITY;

  constructor(options: DeliveryOptions) {
    this.#concurrency = new ConcurrencyLimit(options.concurrency);
    this.#breaker = new CircuitBreaker(options.breaker);
  }

  /** The latest try succeeded. */
  get proven(): boolean {
    return this.#proven;
  }

  /** Most tries in flight now. */
  get concurrency(): number {
    return this.#concurrency.value;
  }

  /** What that may be soon. */
  get hopedConcurrency(): number {
    return this.#concurrency.hoped;
  }

  get isCircuitOpen(): boolean {
    return this.#breaker.isOpen;
  }

  /** Tries that may wait for their turn: those of two seconds at its pace. */
  get mostWaiting(): number {
    const perSecond = this.#pace.perSecond(this.#concurrency.value);
    return Math.max(ALWAYS_TAKEN, (perSecond * MAX_WAIT_MS) / 1_000);
  }

  /** For what is put off: see `LanePace`. */
  hopedPerSecond(nowMs: number): number {
    return this.#pace.hopedPerSecond(this.hopedConcurrency, nowMs);
  }

  circuit(nowMs: number): CircuitState {
    return this.#breaker.state(nowMs);
  }

  /** How long every answer has been a failure, in ms; 0 when the last one was none. */
  failingForMs(nowMs: number): number {
    return this.#breaker.failingForMs(nowMs);
  }

  /** How long no try has started or ended, since there was one to be made, in ms. */
  stillForMs(nowMs: number): number {
    return nowMs - this.#movedMs;
  }

  /** The longest that it asked to wait since its last success, in ms. */
  get retryAfterMs(): number {
    return this.#retryAfterMs;
  }

  /** What tries find that have started before this says nothing any more. */
  onReceiverChanged(nowMs: number): void {
    this.#changes += 1;
    this.#movedMs = nowMs;
    this.#retryAfterMs = 0;
    this.#concurrency.onReceiverChanged();
    this.#breaker.onReceiverChanged(nowMs);
  }

  /** There is a try to be made, where nothing was to be done before. */
  onBusy(nowMs: number): void {
    this.#movedMs = nowMs;
  }

  /** A try starts. The result is to be given back with its reply. */
  onStart(nowMs: number, inFlight: number): StartedFor {
    this.#movedMs = nowMs;
    this.#breaker.onStart();
    return { changes: this.#changes, inFlight };
  }

  /** `reply` is null when the try was cut off by us; `newRunMs`: see `Failure`. */
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

  /** Its timeouts would be reckoned with long after, and its backlog come back at their pace. */
  #onRecovered(): void {
    this.#concurrency.onRecovered();
    this.#pace = new LanePace();
  }

  #noteRetryAfter(reply: Reply, wallMs: number): void {
    const header = reply.kind === "response" ? reply.retryAfter : null;
    this.#retryAfterMs = Math.max(this.#retryAfterMs, parseRetryAfterMs(header, wallMs) ?? 0);
  }
}
