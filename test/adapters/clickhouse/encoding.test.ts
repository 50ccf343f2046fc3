import { ClickHouseError, type ClickHouseClient } from "@clickhouse/client";
import fc from "fast-check";
import { expect, test } from "vitest";
import { fromHeaderText, writeHeaderText } from "../../../src/adapters/clickhouse/header-text.ts";
import { makeEventStoreWriter } from "../../../src/adapters/clickhouse/insert.ts";
import { PIECE_BYTES, PiecePool } from "../../../src/adapters/clickhouse/piece-pool.ts";
import { TabSeparatedWriter } from "../../../src/adapters/clickhouse/tab-separated.ts";
import { adding, makeAttempt, makeEvent } from "../../support/clickhouse-events.ts";

test("headers come back as they were, in their order, whatever their values hold", () => {
  const name = fc.stringMatching(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,8}$/);
  const value = fc.oneof(fc.string(), fc.constantFrom("", ": ", "a\nb", "\n", "\n\t", "a: b"));
  fc.assert(
    fc.property(fc.array(fc.tuple(name, value)), (headers) => {
      const out = new TabSeparatedWriter(new PiecePool());
      writeHeaderText(out, headers);
      out.endRow();
      const [written] = Buffer.concat(out.pieces()).toString().split("\n");
      expect(fromHeaderText(unescaped(written!))).toEqual(headers);
    }),
  );
});

test("a row is one line, however many tabs and line feeds are in its fields", () => {
  fc.assert(
    fc.property(fc.uint8Array(), fc.string(), fc.array(fc.string()), (bytes, text, list) => {
      const out = new TabSeparatedWriter(new PiecePool(), 1);
      out.binary(bytes);
      out.string(text);
      out.strings(list);
      out.nullableString(null);
      out.nullableTime(null);
      out.time(1_700_000_000_007);
      out.endRow();
      const written = Buffer.concat(out.pieces()).toString("latin1");
      expect(written).toHaveLength(out.sizeBytes);
      expect(written.split("\n")).toHaveLength(2);
      expect(written.split("\t")).toHaveLength(6);
      expect(written.endsWith("\\N\t\\N\t1700000000.007\n")).toBe(true);
    }),
  );
});

test("what is written is the same, however many pieces it takes, and reads back as it was", () => {
  const bytes = fc.uint8Array({ maxLength: 300 });
  const text = fc.oneof(fc.string(), fc.string({ unit: fc.constantFrom("あ", "é", "\\", "a") }));
  const special = fc.array(fc.constantFrom(0x09, 0x0a, 0x0d, 0x5c, 0x61), { maxLength: 50 });
  fc.assert(
    fc.property(fc.array(fc.tuple(bytes, special, text)), (rows) => {
      const [small, large] = [
        new TabSeparatedWriter(new PiecePool(), 1),
        new TabSeparatedWriter(new PiecePool()),
      ];
      for (const out of [small, large])
        for (const [any, some, words] of rows) {
          out.binary(any);
          out.binary(Uint8Array.from(some));
          out.string(words);
          out.endRow();
        }
      const written = Buffer.concat(small.pieces());
      expect(written.equals(Buffer.concat(large.pieces()))).toBe(true);
      const lines = written.toString("latin1").split("\n").slice(0, -1);
      expect(lines.map((line) => line.split("\t").map(unescaped))).toEqual(
        rows.map(([any, some, words]) =>
          [any, some, Buffer.from(words)].map((field) => Buffer.from(field).toString("latin1")),
        ),
      );
    }),
  );
});

test("tokens are written as an array of the same strings would be", () => {
  const texts = fc.array(
    fc.string({ unit: fc.constantFrom("a", "'", "\\", "\t", "\0", "é", "😀") }),
  );
  fc.assert(
    fc.property(texts, (values) => {
      const [tokens, strings] = [0, 1].map(() => new TabSeparatedWriter(new PiecePool(), 1));
      const list = tokens!.startTokens();
      for (const value of values) {
        list.text(value);
        list.end();
      }
      tokens!.endTokens();
      strings!.strings(values);
      expect(Buffer.concat(tokens!.pieces()).equals(Buffer.concat(strings!.pieces()))).toBe(true);
    }),
  );
});

test("memory is used again once it was given back, and what a burst took does not stay", () => {
  const pool = new PiecePool();
  const write = (megabytes: number): readonly Buffer[] => {
    const out = new TabSeparatedWriter(pool);
    for (let piece = 0; piece < megabytes; piece += 1) out.binary(new Uint8Array(PIECE_BYTES / 3));
    const pieces = out.pieces().filter(({ buffer }) => buffer.byteLength === PIECE_BYTES);
    out.giveBack();
    return pieces;
  };
  const memories = (pieces: readonly Buffer[]) => new Set(pieces.map(({ buffer }) => buffer));
  const first = memories(write(20));
  const second = memories(write(20));
  expect(first.size).toBeGreaterThan(5);
  expect([...second].filter((memory) => first.has(memory))).toHaveLength(first.size);
  for (let insert = 0; insert < first.size; insert += 1) write(0);
  expect([...memories(write(20))].some((memory) => second.has(memory))).toBe(false);
});

test("memory of an insert that failed is not written again: its request may still be under way", async () => {
  const sent: Set<ArrayBufferLike>[] = [];
  const exec = async ({ values }: { readonly values: AsyncIterable<Buffer> }) => {
    const memories = new Set<ArrayBufferLike>();
    for await (const { buffer } of values)
      if (buffer.byteLength === PIECE_BYTES) memories.add(buffer);
    sent.push(memories);
    if (sent.length === 1) throw new Error("the store is gone");
    return { stream: [] };
  };
  const writer = makeEventStoreWriter({ exec } as unknown as ClickHouseClient);
  const body = Buffer.alloc(PIECE_BYTES / 4);
  const rows = Array.from({ length: 20 }, (_, seed) => ({
    event: makeEvent(seed, { body }),
    addTokens: adding("a"),
  }));
  await expect(writer.insertEvents(rows, "lost")).rejects.toThrow("the store is gone");
  for (const token of ["kept", "next"]) await writer.insertEvents(rows, token);
  const [lost, kept, next] = sent;
  expect([...kept!].some((memory) => lost!.has(memory))).toBe(false);
  expect([...next!].every((memory) => kept!.has(memory))).toBe(true);
  expect(next!.size).toBeGreaterThan(3);
});

test("regression: outcomes of years of events go into inserts of a hundred days each, the same ones when they are repeated: more than a thousand days were refused for ever", async () => {
  const days = 1_201;
  const lastMs = Date.UTC(2026, 0, 2) - 1;
  const rows = Array.from({ length: days * 2 }, (_, index) =>
    makeAttempt(makeEvent(index, { receivedAtMs: lastMs - (index % days) * 86_400_000 }), {
      tryNumber: index,
    }),
  );
  const insert = async () => {
    const inserts: { token: string; days: number; rows: string[] }[] = [];
    const client = clientThat((token, text) => {
      const lines = text.trimEnd().split("\n");
      const seconds = lines.map((line) => Number(line.split("\t")[1]));
      const ofInsert = new Set(seconds.map((at) => Math.floor(at / 86_400)));
      inserts.push({ token, days: ofInsert.size, rows: lines });
    });
    await makeEventStoreWriter(client).insertOutcomes(rows, "t");
    return inserts;
  };
  const inserts = await insert();
  expect(inserts.map((one) => one.days)).toEqual([...Array<number>(12).fill(100), 1]);
  expect(new Set(inserts.map(({ token }) => token)).size).toBe(inserts.length);
  expect(new Set(inserts.flatMap((one) => one.rows)).size).toBe(rows.length);
  expect(await insert()).toEqual(inserts);
});

test("regression: what is too much for the store at once is sent in smaller inserts: a batch for which it had too little memory was repeated for ever", async () => {
  const STORE_TAKES_BYTES = 3 * 1024 * 1024;
  const taken = new Map<string, string>();
  let refused = 0;
  const client = clientThat((token, text) => {
    if (text.length > STORE_TAKES_BYTES) {
      refused += 1;
      throw new ClickHouseError({
        message: "too much",
        code: "241",
        type: "MEMORY_LIMIT_EXCEEDED",
      });
    }
    // A store drops an insert whose token it knows, whatever is in it.
    if (!taken.has(token)) taken.set(token, text);
  });
  const writer = makeEventStoreWriter(client);
  const body = Buffer.alloc(256 * 1024, "a");
  const rows = Array.from({ length: 80 }, (_, seed) => ({
    event: makeEvent(seed, { body }),
    addTokens: adding("a"),
  }));
  const insert = async (token: string): Promise<number> => {
    for (let tries = 1; ; tries += 1)
      try {
        await writer.insertEvents(rows, token);
        return tries;
      } catch (error) {
        expect(error).toMatchObject({ code: "query_limit" });
        expect(tries).toBeLessThan(10);
      }
  };
  const idsTaken = () =>
    new Set(
      [...taken.values()].flatMap((text) =>
        text.split("\n").flatMap((line) => line.split("\t")[2] ?? []),
      ),
    );
  expect(await insert("first")).toBeGreaterThan(2);
  expect(idsTaken()).toEqual(new Set(rows.map(({ event }) => event.id)));
  taken.clear();
  expect(await insert("second")).toBeLessThan(3);
  expect(idsTaken().size).toBe(rows.length);
  expect(refused).toBeLessThan(12);
});

test("regression: an insert during which the store ends is repeated as it was, and then smaller: where it ended for the insert's memory, the same one ended it for ever", async () => {
  const STORE_TAKES_BYTES = 3 * 1024 * 1024;
  const sizes: number[] = [];
  const taken: string[] = [];
  const client = clientThat((_token, text) => {
    sizes.push(text.length);
    if (text.length <= STORE_TAKES_BYTES) {
      taken.push(...text.trimEnd().split("\n"));
      return;
    }
    throw Object.assign(new Error("socket hang up"), { code: "ECONNRESET" });
  });
  const writer = makeEventStoreWriter(client);
  const body = Buffer.alloc(256 * 1024, "a");
  const rows = Array.from({ length: 80 }, (_, seed) => ({
    event: makeEvent(seed, { body }),
    addTokens: adding("a"),
  }));
  const insert = () => writer.insertEvents(rows, "t").catch((error: unknown) => error);
  const errors: unknown[] = [];
  for (let tries = 0; tries < 10; tries += 1) {
    const error = await insert();
    if (error === undefined) break;
    errors.push(error);
  }
  expect(errors.length).toBeLessThan(10);
  expect(errors.every((error) => (error as { code: string }).code === "store_unavailable")).toBe(
    true,
  );
  expect(sizes[1]).toBe(sizes[0]);
  expect(sizes[2]).toBeLessThan(sizes[0]! * 0.6);
  const ids = new Set(taken.map((line) => line.split("\t")[2]));
  expect(ids).toEqual(new Set(rows.map(({ event }) => event.id)));
});

test("inserts that a store cannot take for now are repeated as they are, however often", async () => {
  const sizes: number[] = [];
  const client = clientThat((_token, text) => {
    sizes.push(text.length);
    throw Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
  });
  const writer = makeEventStoreWriter(client);
  const body = Buffer.alloc(256 * 1024, "a");
  const rows = [1, 2, 3, 4, 5, 6, 7, 8].map((seed) => ({
    event: makeEvent(seed, { body }),
    addTokens: adding("a"),
  }));
  for (let tries = 0; tries < 4; tries += 1)
    await expect(writer.insertEvents(rows, "t")).rejects.toThrow("ECONNREFUSED");
  expect(sizes).toEqual(sizes.map(() => sizes[0]));
});

/** Makes a client that hands each insert to `take`, with its token. */
function clientThat(take: (token: string, text: string) => void): ClickHouseClient {
  const exec = async (insert: {
    readonly values: AsyncIterable<Buffer>;
    readonly clickhouse_settings: Readonly<Record<string, string>>;
  }) => {
    const pieces: Buffer[] = [];
    for await (const piece of insert.values) pieces.push(piece);
    take(
      insert.clickhouse_settings["insert_deduplication_token"]!,
      Buffer.concat(pieces).toString(),
    );
    return { stream: [] };
  };
  return { exec } as unknown as ClickHouseClient;
}

const LETTERS: Record<string, string> = { t: "\t", n: "\n", r: "\r", "\\": "\\" };

function unescaped(field: string): string {
  return field.replaceAll(/\\(.)/gs, (_, letter: string) => LETTERS[letter]!);
}
