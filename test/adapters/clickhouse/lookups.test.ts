import { once } from "node:events";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { connectLookups, type Lookups } from "../../../src/adapters/clickhouse/lookups.ts";
import { toStoreError } from "../../../src/adapters/clickhouse/store-error.ts";
import { startTestClickHouse, type TestClickHouse } from "../../support/clickhouse.ts";
import { countTurns } from "../../support/count-turns.ts";
import { waitFor } from "../../support/wait-for.ts";

const never = (): AbortSignal => new AbortController().signal;

describe("against the engine", () => {
  let clickhouse: TestClickHouse;
  beforeAll(async () => {
    clickhouse = await startTestClickHouse();
  });
  afterAll(async () => {
    await clickhouse[Symbol.asyncDispose]();
  });

  test.each([
    ["quotes", `it's "so"`],
    ["backslashes", "a\\b\\\\c\\"],
    ["white space", "tab\tline\nreturn\r end "],
    ["what an URL gives a meaning to", "a&b=c?d#e+f%20g"],
    ["other scripts", "žlutý \u{1f642} 漢字"],
    ["nothing", ""],
  ])("a parameter with %s arrives as it is, alone and in an array", async (_, text) => {
    const query = "SELECT {text:String} AS text, {texts:Array(String)} AS texts, {n:Int64} AS n";
    const parameters = { text, texts: [text, "'", text], n: -9_007_199_254_740_991 };
    expect(await clickhouse.lookups.ask(query, parameters, {}, never())).toEqual([parameters]);
  });

  test("rows come in order, each of them, and none is an empty answer", async () => {
    const rows = await clickhouse.lookups.ask("SELECT number FROM numbers(3)", {}, {}, never());
    expect(rows).toEqual([{ number: 0 }, { number: 1 }, { number: 2 }]);
    expect(await clickhouse.lookups.ask("SELECT 1 WHERE false", {}, {}, never())).toEqual([]);
  });

  test("settings hold, and what the server refuses is told as the driver tells it", async () => {
    const failure = async (query: string, settings = {}, url = clickhouse.url): Promise<string> => {
      const lookups = connectLookups(url);
      const error: unknown = await lookups.ask(query, {}, settings, never()).then(
        () => null,
        (reason: unknown) => reason,
      );
      await lookups.close();
      return toStoreError(error).code;
    };
    const long = "SELECT count() FROM numbers(100000000000) WHERE sipHash64(number) = 1";
    expect(await failure(long, { max_execution_time: 0.2 })).toBe("query_limit");
    expect(await failure("SELECT nothing")).toBe("store_refused");
    expect(await failure("SELECT * FROM nowhere")).toBe("store_unavailable");
    expect(await failure("DROP TABLE events", { readonly: "2" })).toBe("store_unavailable");
    const rotated = new URL(clickhouse.url);
    rotated.password = "former";
    expect(await failure("SELECT 1", {}, rotated.href)).toBe("store_unavailable");
    expect(await failure("SELECT 1", {}, "http://relay:x@127.0.0.1:1/relay")).toBe(
      "store_unavailable",
    );
  });
});

describe("against a server of the test", () => {
  const withServer = async (
    answer: (response: ServerResponse, url: URL, authorization: string) => void,
    ask: (lookups: Lookups, server: Server) => Promise<void>,
    userAndPassword = "relay:x",
  ): Promise<void> => {
    const server = createServer((request, response) =>
      answer(
        response,
        new URL(request.url ?? "", "http://test"),
        request.headers.authorization ?? "",
      ),
    );
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const lookups = connectLookups(`http://${userAndPassword}@127.0.0.1:${port}/events_eu`);
    try {
      await ask(lookups, server);
    } finally {
      await lookups.close();
      server.closeAllConnections();
      server.close();
    }
  };

  test("user, password and database are those of the address, escapes read", async () => {
    const told: string[] = [];
    const answer = (response: ServerResponse, url: URL, authorization: string): void => {
      told.push(Buffer.from(authorization.slice("Basic ".length), "base64").toString());
      told.push(url.searchParams.get("database") ?? "");
      response.end('{"n":1}\n');
    };
    await withServer(
      answer,
      async (lookups) => {
        expect(await lookups.ask("SELECT 1 AS n", {}, {}, never())).toEqual([{ n: 1 }]);
      },
      "re%40lay:p%3Ass%2F",
    );
    expect(told).toEqual(["re@lay:p:ss/", "events_eu"]);
  });

  test("an error that is told after the rows began is an error, not an answer", async () => {
    const answer = (response: ServerResponse): void => {
      response.writeHead(200, { "x-clickhouse-exception-code": "241" });
      response.end("Code: 241. DB::Exception: Memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)");
    };
    await withServer(answer, async (lookups) => {
      const error: unknown = await lookups.ask("SELECT 1", {}, {}, never()).catch(toStoreError);
      expect(error).toMatchObject({ code: "query_limit" });
    });
  });

  test("an answer of a proxy that cannot reach the server is an error, not no rows", async () => {
    const answer = (response: ServerResponse): void => {
      response.writeHead(502);
      response.end();
    };
    await withServer(answer, async (lookups) => {
      const error: unknown = await lookups.ask("SELECT 1", {}, {}, never()).catch(toStoreError);
      expect(error).toMatchObject({ code: "store_unavailable" });
    });
  });

  test("an answer that breaks off is an error, not fewer rows", async () => {
    const answer = (response: ServerResponse): void => {
      response.write('{"n":1}\n', () => response.destroy());
    };
    await withServer(answer, async (lookups) => {
      const error: unknown = await lookups.ask("SELECT 1", {}, {}, never()).catch(toStoreError);
      expect(error).toMatchObject({ code: "store_unavailable" });
    });
  });

  test("a long answer is parsed in pieces of a megabyte, with turns of the event loop in between", async () => {
    const row = { text: "x".repeat(9_990) };
    const answer = (response: ServerResponse): void => {
      response.end(`${JSON.stringify(row)}\n`.repeat(1_000));
    };
    await withServer(answer, async (lookups) => {
      using turns = countTurns();
      const parsedIn = new Map<number, number>();
      const parse = JSON.parse;
      const spied = vi.spyOn(JSON, "parse").mockImplementation((text) => {
        parsedIn.set(turns.count, (parsedIn.get(turns.count) ?? 0) + text.length);
        return parse(text) as unknown;
      });
      const rows = await lookups.ask("SELECT 1", {}, {}, never());
      spied.mockRestore();
      expect(rows).toEqual(Array.from({ length: 1_000 }, () => row));
      expect(Math.max(...parsedIn.values())).toBeLessThan(1.1 * 1024 * 1024);
    });
  });

  test("one that is given up closes its connection, so that the server ends it", async () => {
    let closed = 0;
    const answer = (response: ServerResponse): void => {
      response.once("close", () => (closed += 1));
    };
    await withServer(answer, async (lookups, server) => {
      const left = new AbortController();
      const asked = expect(lookups.ask("SELECT 1", {}, {}, left.signal)).rejects.toThrow();
      await once(server, "request");
      left.abort(new Error("the client has gone"));
      await asked;
      await waitFor("a closed connection", () => closed === 1);
    });
  });

  test("a server that closes idle connections is asked over a new one", async () => {
    const answer = (response: ServerResponse): void => {
      response.end('{"n":1}\n');
    };
    await withServer(answer, async (lookups, server) => {
      for (let turn = 0; turn < 3; turn += 1) {
        expect(await lookups.ask("SELECT 1 AS n", {}, {}, never())).toEqual([{ n: 1 }]);
        server.closeIdleConnections();
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    });
  });
});
