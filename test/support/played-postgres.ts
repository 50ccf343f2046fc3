import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";

/** AuthenticationOk and ReadyForQuery. */
const WELCOME = Buffer.from("R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I", "latin1");
/** CommandComplete and ReadyForQuery. */
const DONE = Buffer.from("C\0\0\0\x0bLISTEN\0Z\0\0\0\x05I", "latin1");
/** ErrorResponse and ReadyForQuery. */
const FAILED = Buffer.from("E\0\0\0\x14SERROR\0CXX000\0\0Z\0\0\0\x05I", "latin1");
const SIMPLE_QUERY = "Q";

/** Starts a server that welcomes clients, answers queries and never hangs up, unless told otherwise. */
export async function startPlayedPostgres() {
  const sockets = new Set<Socket>();
  const state = { refuses: false, fails: false };
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    if (state.refuses) {
      socket.destroy();
      return;
    }
    sockets.add(socket);
    socket.on("error", () => undefined).on("close", () => sockets.delete(socket));
    socket.once("data", () => {
      socket.write(WELCOME);
      socket.on("data", (data) => {
        if (data.toString("latin1", 0, 1) === SIMPLE_QUERY)
          socket.write(state.fails ? FAILED : DONE);
      });
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    connection: { host: "127.0.0.1", port, user: "relay", database: "relay" },
    state,
    /** Breaks all connections. */
    cut,
    /** Those that their clients have not ended. */
    openConnections: () => [...sockets].filter(({ readableEnded }) => !readableEnded).length,
    [Symbol.asyncDispose]: async () => {
      cut();
      server.close();
      await once(server, "close");
    },
  };
}
