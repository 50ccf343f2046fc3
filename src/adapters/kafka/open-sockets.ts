import type { Socket } from "node:net";

/**
 * The connections of a log. After it was told to disconnect, the client opens a new one for whatever else is asked (a lag for
 * the metrics, an offset while a consumer restarts), and nothing would ever end that one: it would keep the process running.
 */
export class OpenSockets {
  readonly #sockets = new Set<Socket>();
  #ended = false;

  add(socket: Socket): void {
    // The client stops listening when it disconnects; an error without a listener would end the process.
    socket.on("error", () => {});
    if (this.#ended) {
      socket.destroy(new Error("the log is closed"));
      return;
    }
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
  }

  /** Cuts whatever is open, or is opened from here on, with an error, so that what waits for an answer ends. */
  end(): void {
    this.#ended = true;
    for (const socket of this.#sockets) socket.destroy(new Error("the log is closed"));
  }
}
