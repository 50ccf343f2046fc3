import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { test } from "vitest";
import { startConfigFeed } from "../../../src/adapters/postgres/config-feed.ts";
import { realClock } from "../../support/clickhouse.ts";
import { toError } from "../../../src/domain/thrown.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";
import { waitFor } from "../../support/wait-for.ts";

/** AuthenticationOk and ReadyForQuery. */
const WELCOME = Buffer.from("R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I", "latin1");
/** CommandComplete and ReadyForQuery. */
const DONE = Buffer.from("C\0\0\0\x0bLISTEN\0Z\0\0\0\x05I", "latin1");
const SIMPLE_QUERY = "Q";

/** Starts a server that welcomes clients, answers queries and never hangs up. */
async function startServer() {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined).on("close", () => sockets.delete(socket));
    socket.once("data", () => {
      socket.write(WELCOME);
      socket.on("data", (data) => {
        if (data.toString("latin1", 0, 1) === SIMPLE_QUERY) socket.write(DONE);
      });
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    connection: { host: "127.0.0.1", port, user: "relay", database: "relay" },
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

test("regression: every process took half a minute to stop, and failed, while PostgreSQL was frozen: its feed of changes waited for it to hang up", async () => {
  await using server = await startServer();
  let listens = false;
  const feed = startConfigFeed({
    connection: server.connection,
    clock: realClock,
    logger: makeSilentLogger(),
    explain: toError,
    onChange: () => undefined,
    onGap: () => void (listens = true),
  });
  await waitFor("the feed", () => listens);
  await feed[Symbol.asyncDispose]();
});
