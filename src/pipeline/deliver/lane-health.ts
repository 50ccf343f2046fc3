import { CircuitBreaker } from "./circuit-breaker.ts";
import type { CircuitState } from "./circuit-breaker.ts";
import { ConcurrencyLimit } from "./concurrency-limit.ts";
import { isSuccess } from "./conclude.ts";
import { LanePace } from "./lane-pace.ts";
import type { DeliveryOptions, Reply } from "./ports.ts";

/** What a lane has learnt of its receiver from the answers. Times are steady, in ms. */
export class LaneHealth {
  readonly #concurrency: ConcurrencyLimit;
  readonly #breaker: CircuitBreaker;
  readonly #pace = new LanePace();
  #proven = false;

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

  get isCircuitOpen(): boolean {
    return this.#breaker.isOpen;
  }

  get perSecond(): number {
    return this.#pace.perSecond(this.#concurrency.value);
  }

  /** For what is put off: see `LanePace`. */
  hopedPerSecond(nowMs: number): number {
    return this.#pace.hopedPerSecond(this.#concurrency.value, nowMs);
  }

  circuit(nowMs: number): CircuitState {
    return this.#breaker.state(nowMs);
  }

  /** How long every answer has been a failure, in ms; 0 when the last one was none. */
  failingForMs(nowMs: number): number {
    return this.#breaker.failingForMs(nowMs);
  }

  onStart(): void {
    this.#breaker.onStart();
  }

  /** `reply` is null when the try was cut off by us; `newRunMs`: see `Failure`. */
  onReply(reply: Reply | null, newRunMs: number | null, nowMs: number): void {
    if (reply === null) return this.#breaker.onAbandoned();
    this.#proven = isSuccess(reply);
    if (this.#proven) {
      this.#concurrency.onSuccess();
      this.#breaker.onSuccess();
    } else {
      if (reply.kind === "timeout") this.#concurrency.onTimeout();
      else this.#concurrency.onFailure();
      this.#breaker.onFailure(nowMs, { timedOut: reply.kind === "timeout", newRunMs });
    }
    this.#pace.onReply(reply.latencyMs, this.#concurrency.value, nowMs);
  }
}
