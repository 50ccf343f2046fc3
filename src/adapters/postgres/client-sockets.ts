import { Socket } from "node:net";
import { toError } from "../../domain/thrown.ts";

/** A healthy server closes its end of a connection in milliseconds. */
const FAREWELL_MS = 2_000;

/**
 * The connections of PostgreSQL clients. A client says goodbye and waits for the server to hang up, which one that is frozen, or
 * behind a network that drops everything, never does.
 */
export class ClientSockets {
  readonly #open = new Set<Socket>();

  /** Makes a client's `stream`. */
  readonly make = (): Socket => {
    const socket = new ClientSocket();
    this.#open.add(socket);
    socket.once("close", () => this.#open.delete(socket));
    return socket;
  };

  /** Resolves when the clients have ended and all connections are closed; those that are late are cut. */
  async end(clients: Promise<unknown>): Promise<void> {
    const closed = [...this.#open].map(
      (socket) => new Promise<void>((resolve) => socket.once("close", resolve)),
    );
    const ended = Promise.allSettled([clients, ...closed]);
    const timer = setTimeout(() => {
      for (const socket of this.#open) socket.destroy();
    }, FAREWELL_MS);
    await ended;
    clearTimeout(timer);
  }
}

/**
 * Fails to connect where it would throw, as for a port that is none: `pg` leaves a client whose `connect` has thrown in its pool,
 * which then never ends.
 */
class ClientSocket extends Socket {
  override connect(...address: unknown[]): this {
    try {
      return super.connect(...(address as Parameters<Socket["connect"]>));
    } catch (error) {
      return this.destroy(toError(error));
    }
  }
}
