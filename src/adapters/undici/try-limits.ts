import { Slots } from "../../domain/slots.ts";
import type { Answer, Exchange } from "./exchange.ts";
import { toError } from "../../domain/thrown.ts";

/**
 * Ends exchanges at their deadline or with their caller's signal, whichever comes first. One signal stops thousands of
 * tries, so it has one listener here: a list of listeners is walked whenever one comes or goes.
 */
export class TryLimits {
  readonly #bySignal = new WeakMap<AbortSignal, Slots<Exchange>>();

  /** Resolves or rejects as the exchange does. @throws {DeadlineError}, or the signal's reason */
  async within(exchange: Exchange, signal: AbortSignal | null): Promise<Answer> {
    const expire = (): void => exchange.expire();
    // After the process stood still, an answer that came meanwhile may be read only after its timers have run.
    const timer = setTimeout(() => setImmediate(expire), exchange.timeoutMs);
    const together = signal === null ? null : this.#exchangesOf(signal);
    const slot = together?.add(exchange) ?? 0;
    try {
      return await exchange.answered;
    } finally {
      clearTimeout(timer);
      together?.take(slot);
    }
  }

  #exchangesOf(signal: AbortSignal): Slots<Exchange> {
    let exchanges = this.#bySignal.get(signal);
    if (exchanges === undefined) {
      const all = new Slots<Exchange>();
      const onAbort = () => {
        for (const exchange of all) exchange.abort(toError(signal.reason));
      };
      signal.addEventListener("abort", onAbort, { once: true });
      this.#bySignal.set(signal, all);
      exchanges = all;
    }
    return exchanges;
  }
}
