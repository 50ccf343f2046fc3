import { connect } from "node:net";
import type { Server } from "node:net";

/** Begins to listen on a unix socket. Returns false if it cannot be made. */
export function listensAt(server: Server, path: string): Promise<boolean> {
  return new Promise((resolve) => {
    server.on("error", () => resolve(false));
    server.listen(path, () => resolve(true));
  });
}

/** Returns whether a process accepts connections at a unix socket. */
export function answersAt(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    const settle = (isAccepted: boolean): void => {
      socket.destroy();
      resolve(isAccepted);
    };
    socket.once("connect", () => settle(true));
    socket.once("error", () => settle(false));
  });
}
