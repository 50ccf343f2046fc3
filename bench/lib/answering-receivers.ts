import { App, us_socket_local_port } from "uWebSockets.js";

/** Starts receivers, each on its own port, that answer 200 to every POST once its body is in. @returns their ports */
export function startAnsweringReceivers(count: number): Promise<number[]> {
  return Promise.all(Array.from({ length: count }, startOne));
}

function startOne(): Promise<number> {
  return new Promise((resolve) => {
    App()
      .post("/*", (res) => {
        res.onAborted(() => undefined);
        res.onData((_, isLast) => {
          if (isLast) res.end("ok");
        });
      })
      .listen("127.0.0.1", 0, (socket) => resolve(us_socket_local_port(socket)));
  });
}
