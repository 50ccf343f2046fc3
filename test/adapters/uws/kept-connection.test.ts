import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import type { Answer } from "../../../src/domain/incoming-request.ts";
import { startIngestServer } from "../../../src/adapters/uws/server.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";
import { waitFor } from "../../support/wait-for.ts";

const NOT_FOUND: Answer = {
  status: "404 Not Found",
  eventId: null,
  extraHeader: null,
  body: "{}",
};

test.each([
  ["with its head", 0],
  ["a moment later", 100],
])(
  "a connection whose request was refused after a lookup is read on when its body comes %s: its next request is answered",
  async (_, bodyAfterMs) => {
    await using server = await startIngestServer({
      host: "127.0.0.1",
      port: 0,
      sharePort: false,
      logger: makeSilentLogger(),
      metrics: {
        malformed: () => undefined,
        connections: () => undefined,
        connectionRefused: () => undefined,
        aborted: () => undefined,
      },
      // As ingest does for an address whose endpoint must be looked up and does not exist.
      handle: async (_head, reply) => {
        await new Promise((resolve) => setImmediate(resolve));
        reply(NOT_FOUND);
        return null;
      },
    });
    const socket = connect(server.port, "127.0.0.1");
    try {
      await once(socket, "connect");
      let answered = "";
      socket.on("data", (chunk: Buffer) => (answered += chunk.toString()));
      for (let count = 1; count <= 3; count += 1) {
        const head = "POST /in/x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n";
        socket.write(bodyAfterMs === 0 ? `${head}{}` : head);
        if (bodyAfterMs > 0) {
          await delay(bodyAfterMs);
          socket.write("{}");
        }
        await waitFor(
          `answer ${count}`,
          () => answered.split("HTTP/1.1 404").length - 1 === count,
          5_000,
        );
      }
      expect(answered).not.toContain("Connection: close");
    } finally {
      socket.destroy();
    }
  },
);
