import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { openEventStore } from "../../src/app/open-event-store.ts";
import { makeSupervisor } from "../../src/app/supervisor.ts";
import { makeSystemClock } from "../../src/app/system-clock.ts";
import { makeSilentLogger } from "../support/silent-logger.ts";

test("questions that take long keep no insert waiting: fifty of them had all connections", async () => {
  let asked = 0;
  const server = createServer((request, response) => {
    void text(request).then((statement) => {
      if (statement.startsWith("INSERT")) response.end();
      else asked += 1;
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const logger = makeSilentLogger();
  const supervisor = makeSupervisor({ clock: makeSystemClock(), logger });
  try {
    const { reads, writes } = await openEventStore({
      clickhouseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/relay`,
      dataDir: "",
      logger,
      supervisor,
    });
    const calledOff = new AbortController();
    const questions = Array.from({ length: 50 }, () =>
      reads.query({ query: "SELECT 1", abort_signal: calledOff.signal }),
    );
    const ended = Promise.allSettled(questions);
    await expect.poll(() => asked, { timeout: 15_000 }).toBeGreaterThan(0);
    await writes.command({ query: "INSERT INTO events VALUES (1)" });
    calledOff.abort();
    expect((await ended).filter(({ status }) => status === "rejected")).toHaveLength(50);
  } finally {
    await supervisor[Symbol.asyncDispose]();
    server.closeAllConnections();
    server.close();
  }
});
