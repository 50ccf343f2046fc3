import type { HttpResponse } from "uWebSockets.js";

/**
 * How long the first head of a connection may take, in ms. uWebSockets.js closes the connection 8 to 12 s after it was opened, without a
 * word, also if what has come is a head that it does not understand.
 */
const MAX_HEAD_MS = 7_000;
/** Connections that are watched at a time; any others are closed without a word. */
const MAX_WATCHED = 1_000;

interface Watched {
  readonly response: HttpResponse;
  readonly timer: NodeJS.Timeout;
}

/**
 * Finds connections on which no request has arrived in time, so that these can be told why they are closed.
 *
 * uWebSockets.js lends a handle to a connection when it opens, valid until it closes, but does not say which connection a request has
 * come on, nor when one closes on which a request had come. So all connections from an address are let go of as soon as any request
 * comes from there: a handle that outlives its connection would be memory that was freed.
 */
export class HeadDeadline {
  readonly #onMissed: (response: HttpResponse) => void;
  readonly #byAddress = new Map<string, Set<Watched>>();
  #count = 0;

  constructor(onMissed: (response: HttpResponse) => void) {
    this.#onMissed = onMissed;
  }

  /** Watches a connection that has just opened. `address`: of its peer, empty if it is gone. */
  onOpened(response: HttpResponse, address: string): void {
    if (address === "" || this.#count >= MAX_WATCHED) return;
    const timer = setTimeout(() => {
      // After the next poll: a head that has come while the loop was held up is read only then.
      setImmediate(() => {
        if (this.#letGo(address, watched)) this.#onMissed(response);
      });
    }, MAX_HEAD_MS);
    const watched = { response, timer };
    const known = this.#byAddress.get(address);
    if (known === undefined) this.#byAddress.set(address, new Set([watched]));
    else known.add(watched);
    this.#count += 1;
    response.onAborted(() => this.#letGo(address, watched));
  }

  /** Has to be called for every request, before anything else may throw. */
  onRequest(address: string): void {
    if (this.#count === 0) return;
    // Its sender is gone already, and so is its address.
    if (address === "") for (const known of this.#byAddress.keys()) this.#letGoOfAll(known);
    else this.#letGoOfAll(address);
  }

  #letGoOfAll(address: string): void {
    for (const watched of this.#byAddress.get(address) ?? []) this.#letGo(address, watched);
  }

  /** Returns whether the connection was watched until now. */
  #letGo(address: string, watched: Watched): boolean {
    const known = this.#byAddress.get(address);
    if (known?.delete(watched) !== true) return false;
    clearTimeout(watched.timer);
    this.#count -= 1;
    if (known.size === 0) this.#byAddress.delete(address);
    return true;
  }
}
