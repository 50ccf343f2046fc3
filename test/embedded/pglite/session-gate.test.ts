import type { PGlite } from "@electric-sql/pglite";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { simpleQuery } from "../../../src/embedded/pglite/messages.ts";
import {
  makeSessionGate,
  runOutsideTransactions,
} from "../../../src/embedded/pglite/session-gate.ts";

const MAX_IDLE_MS = 1_000;
const PARSE = Buffer.from("P\0\0\0\x0e\0SELECT 1\0");

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A gate before an engine that knows BEGIN, COMMIT and ROLLBACK. */
function makeGate() {
  const ran: string[] = [];
  const told: string[] = [];
  let isOpen = false;
  let givenUp = 0;
  const database = {
    isInTransaction: () => isOpen,
    runExclusive: (work: () => Promise<unknown>) => work(),
    execProtocolRawStream: async (message: Uint8Array) => {
      const text = Buffer.from(message).toString("latin1", 5, message.length - 1);
      ran.push(text);
      if (text === "BEGIN") isOpen = true;
      if (text === "COMMIT" || text === "ROLLBACK") isOpen = false;
    },
  };
  const gate = makeSessionGate(database as unknown as PGlite, {
    maxIdleMs: MAX_IDLE_MS,
    onGivenUp: () => (givenUp += 1),
  });
  const send = (message: Uint8Array) =>
    gate.execProtocolRawStream(message, {
      onRawData: (data) => {
        if (data.length > 0) told.push(Buffer.from(data).toString("latin1"));
      },
    });
  return {
    ran,
    told,
    send,
    query: (sql: string) => send(simpleQuery(sql)),
    isInTransaction: () => gate.isInTransaction(),
    maintain: (sql: string) => runOutsideTransactions(database as unknown as PGlite, sql),
    givenUp: () => givenUp,
  };
}

it("gives up a transaction whose connection sends nothing for too long, and tells it alone", async () => {
  const gate = makeGate();
  await gate.query("BEGIN");
  await vi.advanceTimersByTimeAsync(MAX_IDLE_MS - 1);
  expect(gate.ran).toEqual(["BEGIN"]);
  await vi.advanceTimersByTimeAsync(1);
  expect(gate.ran).toEqual(["BEGIN", "ROLLBACK"]);
  expect(gate.told).toEqual([expect.stringMatching(/^E.*SFATAL.*C25P03/s)]);
  expect(gate.givenUp()).toBe(1);
});

it("gives up a batch that is not sent to its end", async () => {
  const gate = makeGate();
  await gate.send(PARSE);
  expect(gate.isInTransaction()).toBe(true);
  await vi.advanceTimersByTimeAsync(MAX_IDLE_MS);
  expect(gate.isInTransaction()).toBe(false);
  expect(gate.ran).toEqual([]);
  expect(gate.givenUp()).toBe(1);
});

it("goes on with a transaction for as long as statements come, and with connections that have none", async () => {
  const gate = makeGate();
  await gate.query("BEGIN");
  for (let statement = 0; statement < 5; statement += 1) {
    await vi.advanceTimersByTimeAsync(MAX_IDLE_MS - 1);
    await gate.query("SELECT 1");
  }
  await vi.advanceTimersByTimeAsync(MAX_IDLE_MS - 1);
  await gate.query("COMMIT");
  await vi.advanceTimersByTimeAsync(MAX_IDLE_MS * 10);
  expect(gate.givenUp()).toBe(0);
  expect(gate.ran).not.toContain("ROLLBACK");
});

it("does what keeps the database in order outside of transactions alone, which it could break", async () => {
  const gate = makeGate();
  await gate.query("BEGIN");
  expect(await gate.maintain("ANALYZE")).toBe(false);
  await gate.query("COMMIT");
  expect(await gate.maintain("ANALYZE")).toBe(true);
  expect(gate.ran).toEqual(["BEGIN", "COMMIT", "ANALYZE"]);
});
