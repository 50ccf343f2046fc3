import { Socket } from "node:net";
import { Client, type ClientConfig } from "pg";
import { toError } from "../../domain/thrown.ts";

/**
 * Makes a client. `pg` reads the certificate files that a URL names each time it makes one, and its pool makes some where nothing
 * catches what that throws, which ends the process. One whose files cannot be read, since they are just being renewed, is made all
 * the same here, and fails to connect, as it would if the server were away. Also works with `new`, as the pool calls it.
 */
export function makeClient(config: ClientConfig): Client {
  try {
    return new Client(config);
  } catch (error) {
    return new Client({ stream: () => new FailingSocket(toError(error)) });
  }
}

class FailingSocket extends Socket {
  readonly #reason: Error;

  constructor(reason: Error) {
    super();
    this.#reason = reason;
  }

  override connect(): this {
    return this.destroy(this.#reason);
  }
}
