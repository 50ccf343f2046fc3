import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { openEventStore } from "../../src/app/open-event-store.ts";
import { makeSupervisor } from "../../src/app/supervisor.ts";
import { makeSystemClock } from "../../src/app/system-clock.ts";
import { readCredentials } from "../../src/embedded/chdb/credentials-file.ts";
import { makeSilentLogger } from "../support/silent-logger.ts";
import { waitFor } from "../support/wait-for.ts";

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

test("an embedded ClickHouse that was killed is started again behind the same connections", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "relay-open-event-store-"));
  const failures: string[] = [];
  const logger = makeSilentLogger((_level, message) => {
    if (message.startsWith("part.")) failures.push(message);
  });
  const supervisor = makeSupervisor({ clock: makeSystemClock(), logger });
  try {
    const { reads } = await openEventStore({ clickhouseUrl: null, dataDir, logger, supervisor });
    const answers = () => reads.query({ query: "SELECT 1" }).then((found) => found.text());
    expect(await answers()).toContain("1");
    process.kill((await readCredentials(dataDir))!.pid, "SIGKILL");
    const engine = () => supervisor.status().find(({ name }) => name === "clickhouse");
    await waitFor("a new engine", () => engine()?.restarts === 1 && engine()?.state === "running");
    expect(engine()?.lastError).toBe("the embedded ClickHouse ended (SIGKILL)");
    expect(await answers()).toContain("1");
  } finally {
    await supervisor[Symbol.asyncDispose]();
    await rm(dataDir, { recursive: true });
  }
  expect(failures).toEqual(["part.failed", "part.restarted"]);
});
