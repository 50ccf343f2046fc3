import type { Socket } from "node:net";

/** An address is tried behind the others for this long. */
const REMEMBERED_MS = 60_000;
const MAX_REMEMBERED = 10_000;

/**
 * Remembers which addresses did not take a connection, as RFC 8305, section 4, lets a client sort by what it knows of addresses: each
 * new connection would wait for the same one that is down, and a name whose first addresses take all the time of a try would never be
 * reached.
 */
export class DeadAddresses {
  readonly #untilMs = new Map<string, number>();

  /** Learns from a socket that is not connected yet. */
  watch(socket: Socket): void {
    socket.on("connectionAttemptTimeout", (address) => this.#remember(address));
    socket.on("connectionAttemptFailed", (address) => this.#remember(address));
  }

  /** Returns the same addresses in the same order, except that those that were dead a while ago come last. */
  putLast(addresses: readonly string[]): readonly string[] {
    if (this.#untilMs.size === 0) return addresses;
    const nowMs = performance.now();
    const isDead = (address: string) => (this.#untilMs.get(address) ?? 0) > nowMs;
    return [...addresses.filter((address) => !isDead(address)), ...addresses.filter(isDead)];
  }

  #remember(address: string): void {
    if (this.#untilMs.size >= MAX_REMEMBERED) this.#untilMs.clear();
    this.#untilMs.set(address, performance.now() + REMEMBERED_MS);
  }
}
