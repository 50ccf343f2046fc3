import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { describe, expect, test } from "vitest";
import { loadUws } from "../../../src/adapters/uws/load-uws.ts";
import { formatAddress } from "../../../src/adapters/uws/remote-address.ts";
import { startIngestServer } from "../../../src/adapters/uws/server.ts";
import { UsageError } from "../../../src/domain/errors.ts";
import type { IngestPorts } from "../../../src/pipeline/ingest/ports.ts";
import {
  TOKEN,
  endpointConfig,
  exchangeRaw,
  isWholeAnswer,
  serverRig,
} from "../../support/ingest.ts";
import { until } from "../../support/wait-for.ts";

const post = (body: string, extra = ""): string =>
  `POST /in/${TOKEN} HTTP/1.1\r\nHost: x\r\n${extra}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;

/** Makes a lookup of an endpoint that goes on until `end`, and finds it then. */
function heldLookup() {
  const value = endpointConfig();
  let find: (() => void) | null = null;
  const endpointByToken: IngestPorts["endpointByToken"] = () =>
    new Promise((resolve) => {
      find = () => resolve({ kind: "found", value });
    });
  return { ports: { endpointByToken }, isAsked: () => find !== null, end: () => find?.() };
}

describe("requests", () => {
  test.each([
    ["at once", true],
    ["later", false],
  ])("bodies of every size come through byte for byte, verified %s", async (_, isAtOnce) => {
    const verdict = { valid: true, reason: "ok", message: null } as const;
    await using rig = await serverRig({
      ports: {
        isInline: () => isAtOnce,
        verify: () => (isAtOnce ? verdict : Promise.resolve(verdict)),
      },
    });
    for (const size of [0, 1, 1_023, 65_536, 600_000, 5_000_000]) {
      const body = randomBytes(size);
      const answer = await fetch(rig.url, { method: "POST", body });
      const event = rig.log.events.at(-1);
      expect(answer.status).toBe(200);
      expect(answer.headers.get("x-relay-event-id")).toBe(event?.id);
      expect(answer.headers.get("content-type")).toBe("application/json");
      expect(Buffer.compare(Buffer.from(event?.body ?? []), body)).toBe(0);
    }
  });

  test("a streamed body without a length comes through and its connection is closed", async () => {
    await using rig = await serverRig();
    const chunks = Array.from({ length: 20 }, () => randomBytes(10_000));
    const answer = await exchangeRaw(rig.server.port, [
      `POST /in/${TOKEN} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n`,
      ...chunks.flatMap((chunk) => [
        `${chunk.length.toString(16)}\r\n`,
        Buffer.concat([chunk, Buffer.from("\r\n")]),
      ]),
      "0\r\n\r\n",
    ]);
    expect([answer.status, answer.closed]).toEqual([200, true]);
    const body = Buffer.from(rig.log.events[0]?.body ?? []);
    expect(Buffer.compare(body, Buffer.concat(chunks))).toBe(0);
  });

  test("the name of the transfer coding is taken in any case", async () => {
    await using rig = await serverRig();
    const answer = await exchangeRaw(rig.server.port, [
      `POST /in/${TOKEN} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n`,
    ]);
    expect([answer.status, answer.closed]).toEqual([200, true]);
    expect(rig.log.events[0]?.payloadSizeBytes).toBe(2);
  });

  test("a streamed body of 60,000 bytes in as many chunks comes through", async () => {
    await using rig = await serverRig();
    const answer = await exchangeRaw(
      rig.server.port,
      [
        `POST /in/${TOKEN} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${"1\r\nx\r\n".repeat(60_000)}0\r\n\r\n`,
      ],
      { deadlineMs: 30_000 },
    );
    expect([answer.status, answer.closed]).toEqual([200, true]);
    expect(rig.log.events[0]?.payloadSizeBytes).toBe(60_000);
  });

  test("a body in very many pieces that are not small comes through", async () => {
    await using rig = await serverRig();
    const chunk = `64\r\n${"x".repeat(100)}\r\n`;
    const answer = await exchangeRaw(
      rig.server.port,
      [
        `POST /in/${TOKEN} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${chunk.repeat(66_000)}0\r\n\r\n`,
      ],
      { deadlineMs: 30_000 },
    );
    expect([answer.status, answer.closed]).toEqual([200, true]);
    expect(rig.log.events[0]?.payloadSizeBytes).toBe(6_600_000);
  });

  // A body is thrown away once its answer is decided; here none is given, since on a slow machine it would come first.
  test.each([
    ["that is kept", {}],
    ["that is thrown away", { handle: () => null }],
  ])(
    "a body %s in too many small chunks is cut off: the loop read on for seconds and nobody else was served",
    async (_what, server) => {
      await using rig = await serverRig({ server });
      const answer = await exchangeRaw(
        rig.server.port,
        [
          `POST /in/${TOKEN} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n`,
          "1\r\nx\r\n".repeat(200_000),
          "0\r\n\r\n",
        ],
        { deadlineMs: 30_000 },
      );
      expect([answer.status, answer.closed]).toEqual([0, true]);
      expect(rig.log.records).toHaveLength(0);
      expect(rig.serverMetrics.malformedReasons).toEqual(["body in too many pieces"]);
      expect(rig.serverMetrics.abortedRequests).toBe(0);
      await until(() => rig.ingest.inFlight.requests === 0);
      expect(rig.ingest.inFlight).toEqual({ requests: 0, bytes: 0 });
    },
  );

  test("a streamed body over the limit is 413, its size is what came", async () => {
    await using rig = await serverRig({ options: { maxPayloadBytes: 1_000 } });
    const answer = await exchangeRaw(rig.server.port, [
      `POST /in/${TOKEN} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n${"a".repeat(2_000)}\r\n0\r\n\r\n`,
    ]);
    expect([answer.status, answer.closed]).toEqual([413, true]);
    expect(rig.log.events[0]).toMatchObject({ bodyStored: false, payloadSizeBytes: 2_000 });
  });

  test("a client that sends all of a too large body gets its 413, not a reset", async () => {
    await using rig = await serverRig({ options: { maxPayloadBytes: 1_000_000 } });
    const answer = await fetch(rig.url, { method: "POST", body: randomBytes(8_000_000) });
    expect(answer.status).toBe(413);
    expect(((await answer.json()) as { error: object }).error).toMatchObject({
      code: "payload_too_large",
    });
    expect(rig.log.events[0]?.payloadSizeBytes).toBe(8_000_000);
  });

  test("a sender that never stops is cut off from its too large body, after one that stops in the middle has its answer", async () => {
    await using rig = await serverRig({ options: { maxPayloadBytes: 1_000 } });
    const head = `POST /in/${TOKEN} HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\n`;
    function* endless(): Iterable<string> {
      yield head;
      for (;;) yield "a".repeat(2_000);
    }
    const ended: string[] = [];
    const exchange = async (name: string, pieces: Iterable<string>) => {
      const answer = await exchangeRaw(rig.server.port, pieces, {
        pauseMs: 20,
        deadlineMs: 30_000,
      });
      ended.push(name);
      return answer;
    };
    const [endlessOne, stopping] = await Promise.all([
      exchange("endless", endless()),
      exchange("stopping", [head, "abc"]),
    ]);
    expect([stopping.status, stopping.closed]).toEqual([413, true]);
    expect(endlessOne.closed).toBe(true);
    expect(ended).toEqual(["stopping", "endless"]);
  });

  test("HEAD has no body, and the next answer on the connection is read right", async () => {
    await using rig = await serverRig();
    const { text } = await exchangeRaw(
      rig.server.port,
      [`HEAD /in/${TOKEN} HTTP/1.1\r\nHost: x\r\n\r\n`, post("hello")],
      { pauseMs: 50, until: (seen) => seen.includes("event_id") },
    );
    expect(text).toMatch(/^HTTP\/1\.1 405 [\s\S]*?\r\n\r\nHTTP\/1\.1 200 OK\r\n/);
    expect(text).toMatch(/allow: POST, PUT, PATCH, DELETE\r\n/);
  });

  test.each(["/", "/in/nobody", "/favicon.ico", "/in"])(
    "%s is a 404 in the envelope",
    async (path) => {
      await using rig = await serverRig();
      const answer = await fetch(`http://127.0.0.1:${rig.server.port}${path}`, {
        method: "POST",
        body: "x",
      });
      expect(answer.status).toBe(404);
      expect(await answer.json()).toMatchObject({ error: { code: "not_found" } });
    },
  );

  test("the connection is kept after a refusal that came before the body", async () => {
    await using rig = await serverRig();
    const { text } = await exchangeRaw(
      rig.server.port,
      ["POST /in/nobody HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n", "body", post("hello")],
      { pauseMs: 30, until: (seen) => seen.includes("event_id") },
    );
    expect(text.match(/HTTP\/1\.1 (\d+)/g)).toEqual(["HTTP/1.1 404", "HTTP/1.1 200"]);
  });

  test("a sender far away, silent for a round trip behind its first packets, is answered and its connection kept: it was reset", async () => {
    await using rig = await serverRig({ options: { maxPayloadBytes: 20_000 } });
    for (const [path, status] of [
      ["/in/nobody", "404"],
      [`/in/${TOKEN}`, "413"],
    ] as const) {
      const { text } = await exchangeRaw(
        rig.server.port,
        [
          `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 30000\r\n\r\n${"a".repeat(14_000)}`,
          "a".repeat(15_000),
          "a".repeat(1_000),
          post("hello"),
        ],
        { pauseMs: 250, until: (seen) => seen.includes("event_id") },
      );
      expect(text.match(/HTTP\/1\.1 (\d+)/g)).toEqual([`HTTP/1.1 ${status}`, "HTTP/1.1 200"]);
    }
  });

  test.each([
    ["a method that is refused", `GET /in/${TOKEN}`],
    ["an address of nobody", "POST /in/nobody"],
  ])(
    "in one packet, of requests with %s only the first is handled: one sender's thousands kept all others waiting for seconds",
    async (_what, start) => {
      await using rig = await serverRig();
      const refused = `${start} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n`;
      const answer = await exchangeRaw(rig.server.port, [refused.repeat(500)]);
      expect(answer.closed).toBe(true);
      expect(rig.metrics.outcomes).toHaveLength(1);
    },
  );

  test("in one packet, of requests for whose bodies there is no room only the first is handled: all were, in one turn of the loop", async () => {
    await using rig = await serverRig({ options: { maxBytesInFlight: 4 } });
    const refused = `POST /in/${TOKEN} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello`;
    const answer = await exchangeRaw(rig.server.port, [refused.repeat(500)]);
    expect(answer.closed).toBe(true);
    expect(rig.metrics.outcomes).toEqual(["unavailable"]);
    expect(rig.log.records).toHaveLength(0);
    expect(rig.ingest.inFlight).toEqual({ requests: 0, bytes: 0 });
  });

  test("16 KiB of headers are accepted, in one piece or many", async () => {
    await using rig = await serverRig();
    const raw = post("hello", `X-Big: ${"a".repeat(16_200)}\r\n`);
    const pieces = raw.match(/[\s\S]{1,1000}/g) ?? [];
    const whole = await exchangeRaw(rig.server.port, [raw], { until: isWholeAnswer });
    const split = await exchangeRaw(rig.server.port, pieces, { until: isWholeAnswer, pauseMs: 2 });
    expect([whole.status, split.status]).toEqual([200, 200]);
    expect(rig.log.events[1]?.headers.find(([name]) => name === "x-big")?.[1]).toHaveLength(16_200);
  });

  test.each(["POST", "PUT"])(
    "regression: a %s whose head comes in two packets and declares no bytes is recorded, and its connection goes on: it hung, and was lost",
    async (method) => {
      await using rig = await serverRig();
      const head = `${method} /in/${TOKEN} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n`;
      for (const at of [30, 50, head.length - 2]) {
        const next = post("next", "Connection: close\r\n");
        const pieces = [head.slice(0, at), head.slice(at), next];
        const answer = await exchangeRaw(rig.server.port, pieces, { pauseMs: 100 });
        expect(answer.text.match(/HTTP\/1\.1 200/g), `split at ${at}`).toHaveLength(2);
      }
      expect(rig.log.events.map((event) => event.payloadSizeBytes)).toEqual([0, 4, 0, 4, 0, 4]);
    },
  );

  test("a query that is empty is told from none: it is part of the URL that was signed", async () => {
    const urls: string[] = [];
    await using rig = await serverRig({
      ports: {
        verify: ({ url }) => {
          urls.push(url);
          return { valid: true, reason: "ok", message: null };
        },
      },
    });
    for (const query of ["", "?", "?a=%20"])
      await exchangeRaw(
        rig.server.port,
        [`POST /in/${TOKEN}${query} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi`],
        { until: isWholeAnswer },
      );
    expect(urls).toEqual(
      ["", "?", "?a=%20"].map((query) => `https://relay.example/in/${TOKEN}${query}`),
    );
  });

  test("headers keep order and repetition; two Hosts are refused", async () => {
    await using rig = await serverRig();
    await exchangeRaw(rig.server.port, [post("", "X-A: 1\r\nX-B: 2\r\nX-A: 3\r\n")], {
      until: isWholeAnswer,
    });
    expect(rig.log.events[0]?.headers.filter(([name]) => name.startsWith("x-"))).toEqual([
      ["x-a", "1"],
      ["x-b", "2"],
      ["x-a", "3"],
    ]);
    const refused = await exchangeRaw(rig.server.port, [post("", "Host: y\r\n")]);
    expect([refused.status, refused.closed]).toEqual([400, true]);
    expect(rig.serverMetrics.malformedReasons).toEqual(["more than one Host"]);
  });

  test("regression: a Content-Length that is no number is malformed, and nobody who went away: it was counted as both", async () => {
    await using rig = await serverRig();
    const head = `POST /in/${TOKEN} HTTP/1.1\r\nHost: x\r\nContent-Length: 2x\r\n\r\n`;
    expect(await exchangeRaw(rig.server.port, [head, "{}"])).toMatchObject({ closed: true });
    expect(rig.serverMetrics.malformedReasons).toHaveLength(1);
    expect(rig.serverMetrics.abortedRequests).toBe(0);
  });

  test.each([
    ["a name that nobody can have", "POST", "a b"],
    ["a path", "POST", "a/b"],
    ["a user", "POST", "u@x"],
    ["two ports", "POST", "x:80:80"],
    ["a port that is no number", "POST", "x:abc"],
    ["half an address", "POST", "[::1"],
    ["a broken escape", "POST", "x%zz"],
    ["letters beyond ASCII", "POST", Buffer.from("xé.com").toString("latin1")],
    ["a method that is no token", "P@ST", "x"],
    ["no method", "", "x"],
  ])(
    "regression: %s is refused with 400 and closed: it was taken as any other",
    async (_what, method, host) => {
      await using rig = await serverRig();
      const answer = await exchangeRaw(rig.server.port, [
        `${method} /in/${TOKEN} HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 5\r\n\r\nhello`,
      ]);
      expect([answer.status, answer.closed]).toEqual([400, true]);
      expect(rig.serverMetrics.malformedReasons).toEqual([
        host === "x" ? "invalid method" : "invalid Host",
      ]);
      expect(rig.log.records).toHaveLength(0);
    },
  );

  test.each([
    "",
    "x:",
    "x:8080",
    "[::1]:80",
    "[fe80::1%25eth0]",
    "a,b;c_d.example.",
    "%41.example",
  ])("the Host %j is one", async (host) => {
    await using rig = await serverRig();
    const answer = await exchangeRaw(
      rig.server.port,
      [`POST /in/${TOKEN} HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 5\r\n\r\nhello`],
      { until: isWholeAnswer },
    );
    expect(answer.status).toBe(200);
  });

  test.each([
    ["Content-Length: 5\r\nContent-Length: 6", "5, then 6"],
    ["Content-Length: -1", "negative"],
    ["Content-Length: 0x5", "hexadecimal"],
    ["Content-Length: 5,5", "list"],
    ["Content-Length: 5 5", "two"],
    ["Content-Length: 99999999999999999999", "twenty digits"],
    ["Transfer-Encoding: gzip, chunked", "gzip first"],
    ["Transfer-Encoding: chunked, chunked", "twice"],
    ["Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", "behind another line"],
    ["Transfer-Encoding: ", "empty"],
    ["Transfer-Encoding: \tchunked\r\nContent-Length: 5", "beside a length"],
  ])("%j is refused with 400 and closed (%s)", async (headers) => {
    await using rig = await serverRig();
    const answer = await exchangeRaw(rig.server.port, [
      `POST /in/${TOKEN} HTTP/1.1\r\nHost: x\r\n${headers}\r\n\r\nhello`,
    ]);
    expect([answer.status, answer.closed]).toEqual([400, true]);
    expect(rig.log.records).toHaveLength(0);
  });

  test.each([
    ["two lengths", "POST", TOKEN, "Content-Length: 0\r\nContent-Length: 60", ""],
    ["two equal lengths", "POST", TOKEN, "Content-Length: 0\r\nContent-Length: 0", ""],
    ["two Hosts", "POST", TOKEN, "Host: y\r\nContent-Length: 0", ""],
    ["an unknown coding", "POST", TOKEN, "Transfer-Encoding: xchunked", "0\r\n\r\n"],
    ["a coding before chunked", "POST", TOKEN, "Transfer-Encoding: gzip, chunked", "0\r\n\r\n"],
    ["chunks to nobody", "POST", "nope", "Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n"],
    [
      "chunks with a method that is refused",
      "DELETE",
      TOKEN,
      "Transfer-Encoding: chunked",
      "0\r\n\r\n",
    ],
    ["the wish to close", "POST", "nope", "Connection: te, Close\r\nContent-Length: 0", ""],
  ])(
    "in one packet, no second request is read from behind one with %s",
    async (_what, method, token, headers, body) => {
      await using rig = await serverRig();
      const smuggled = `POST /in/${TOKEN}?smuggled HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi`;
      const answer = await exchangeRaw(
        rig.server.port,
        [`${method} /in/${token} HTTP/1.1\r\nHost: x\r\n${headers}\r\n\r\n${body}${smuggled}`],
        { deadlineMs: 5_000 },
      );
      expect(answer.closed).toBe(true);
      expect(rig.log.events.some((event) => event.query === "smuggled")).toBe(false);
    },
  );

  test.each([
    ["a chunked one", "POST", "Transfer-Encoding: chunked", "5\r\nhelloXX0\r\n\r\n"],
    ["a chunked GET", "GET", "Transfer-Encoding: chunked", "0\r\n\r\n"],
    ["one with a header that has no name", "POST", ": y\r\nContent-Length: 0", ""],
  ])("no second request is read from behind %s", async (_what, method, headers, body) => {
    await using rig = await serverRig();
    const smuggled = `POST /in/${TOKEN}?smuggled HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n`;
    const answer = await exchangeRaw(
      rig.server.port,
      [`${method} /in/${TOKEN} HTTP/1.1\r\nHost: x\r\n${headers}\r\n\r\n${body}`, smuggled],
      { pauseMs: 50 },
    );
    expect(answer.closed).toBe(true);
    expect(rig.log.events.some((event) => event.query === "smuggled")).toBe(false);
  });
});

describe("clients that vanish", () => {
  test("after their body became too large, and before that is answered: recorded once, and all is given back", async () => {
    await using rig = await serverRig({ options: { maxPayloadBytes: 1_000 } });
    rig.log.hold();
    const socket = connect(rig.server.port, "127.0.0.1");
    const chunk = `1f4\r\n${"x".repeat(500)}\r\n`;
    socket.write(
      `POST /in/${TOKEN} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${chunk.repeat(3)}`,
    );
    await until(() => rig.log.appends.length === 1);
    socket.destroy();
    await until(() => rig.serverMetrics.open === 0);
    rig.log.letGo();
    await until(() => rig.ingest.inFlight.requests === 0);
    expect(rig.ingest.inFlight).toEqual({ requests: 0, bytes: 0 });
    expect(rig.log.events).toMatchObject([{ reason: "payload_too_large" }]);
  });

  test("before their answer: a stop does not wait for them", async () => {
    const rig = await serverRig();
    rig.log.hold();
    const socket = connect(rig.server.port, "127.0.0.1");
    socket.write(post("hello"));
    await until(() => rig.log.appends.length === 1);
    socket.destroy();
    await until(() => rig.serverMetrics.open === 0);
    const startedMs = performance.now();
    await rig.server.stop(20_000);
    expect(performance.now() - startedMs).toBeLessThan(10_000);
    rig.log.letGo();
  });

  test("before the body is complete: nothing recorded, nothing held", async () => {
    await using rig = await serverRig();
    for (const piece of ["P", "POST /in", post("").slice(0, -2), post("hello").slice(0, -2)]) {
      const socket = connect(rig.server.port, "127.0.0.1");
      socket.write(piece);
      await until(() => rig.serverMetrics.open === 1);
      socket.destroy();
      await until(() => rig.serverMetrics.open === 0);
    }
    expect(rig.log.records).toHaveLength(0);
    expect(rig.ingest.inFlight).toEqual({ requests: 0, bytes: 0 });
  });

  test("after the body is complete: recorded all the same, the answer has nowhere to go", async () => {
    await using rig = await serverRig();
    rig.log.hold();
    const socket = connect(rig.server.port, "127.0.0.1");
    socket.write(post("hello"));
    await until(() => rig.log.appends.length === 1);
    socket.destroy();
    await until(() => rig.serverMetrics.abortedRequests === 1);
    rig.log.letGo();
    await until(() => rig.ingest.inFlight.requests === 0);
    expect(rig.log.records).toHaveLength(1);
  });

  test("while the endpoint is looked up: the body is read no further, and all is given back", async () => {
    const lookup = heldLookup();
    await using rig = await serverRig({
      options: { maxPayloadBytes: 100_000_000 },
      ports: lookup.ports,
    });
    const socket = connect(rig.server.port, "127.0.0.1");
    socket.on("error", () => {});
    // More than the system's buffers take.
    socket.write(post("x".repeat(64_000_000)));
    await until(lookup.isAsked);
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(socket.writableLength).toBeGreaterThan(0);
    socket.destroy();
    lookup.end();
    await until(() => rig.serverMetrics.open === 0);
    expect(rig.ingest.inFlight).toEqual({ requests: 0, bytes: 0 });
    expect(rig.log.records).toHaveLength(0);
  });

  test.each([
    ["a whole request counts", post("hello"), 1],
    ["part of one does not, and is given back", post("hello").slice(0, -1), 0],
  ])("cut off by a stop while its endpoint is looked up: %s", async (_what, request, recorded) => {
    const lookup = heldLookup();
    await using rig = await serverRig({ ports: lookup.ports });
    const socket = connect(rig.server.port, "127.0.0.1");
    socket.on("error", () => {});
    socket.write(request);
    await until(lookup.isAsked);
    await rig.server.stop(0);
    expect(rig.serverMetrics.abortedRequests).toBe(1);
    lookup.end();
    await until(() => rig.log.records.length === recorded && rig.ingest.inFlight.requests === 0);
    expect(rig.ingest.inFlight).toEqual({ requests: 0, bytes: 0 });
    expect(rig.logged.filter(({ level }) => level === "error")).toEqual([]);
  });

  test("a body that is too large in its first pieces, whose endpoint is looked up, is recorded once", async () => {
    const lookup = heldLookup();
    await using rig = await serverRig({ options: { maxPayloadBytes: 1_000 }, ports: lookup.ports });
    const chunk = `1f4\r\n${"x".repeat(500)}\r\n`;
    const answering = exchangeRaw(rig.server.port, [
      `POST /in/${TOKEN} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${chunk.repeat(5)}0\r\n\r\n`,
    ]);
    await until(lookup.isAsked);
    lookup.end();
    expect(await answering).toMatchObject({ status: 413, closed: true });
    expect(rig.log.events).toMatchObject([
      { reason: "payload_too_large", payloadSizeBytes: 1_500, bodyStored: false },
    ]);
    expect(rig.ingest.inFlight).toEqual({ requests: 0, bytes: 0 });
  });

  test("a large body whose endpoint is looked up arrives whole", async () => {
    const value = endpointConfig();
    await using rig = await serverRig({
      ports: {
        endpointByToken: async () => {
          await new Promise((resolve) => setTimeout(resolve, 20));
          return { kind: "found", value };
        },
      },
    });
    const body = randomBytes(2_000_000);
    expect((await fetch(rig.url, { method: "POST", body })).status).toBe(200);
    expect(Buffer.compare(Buffer.from(rig.log.events[0]?.body ?? []), body)).toBe(0);
  });
});

describe("the process lives", () => {
  test.each([
    [
      "throws",
      () => {
        throw new Error("broken handler");
      },
    ],
    ["rejects", () => Promise.reject(new Error("broken handler"))],
    [
      "gives a reception that throws",
      () => ({
        hold: () => {
          throw new Error("broken reception");
        },
        complete() {},
        abandon() {},
      }),
    ],
  ])("a handler that %s is answered 500", async (_name, handle) => {
    await using rig = await serverRig({ server: { handle } });
    for (const _again of [1, 2]) {
      const answer = await exchangeRaw(rig.server.port, [post("hello")]);
      expect([answer.status, answer.closed]).toEqual([500, true]);
      expect(answer.text).toContain('"code":"internal_error"');
      expect(answer.text).not.toContain("broken");
    }
    expect(rig.logged.filter((line) => line.level === "error")).toHaveLength(2);
  });

  test("more connections than allowed are closed at once, those there are go on", async () => {
    await using rig = await serverRig({ server: { maxConnections: 3 } });
    const sockets = Array.from({ length: 3 }, () => connect(rig.server.port, "127.0.0.1"));
    await until(() => rig.serverMetrics.open === 3);
    const refused = await exchangeRaw(rig.server.port, [post("hello")]);
    expect([refused.status, refused.closed]).toEqual([0, true]);
    expect(rig.serverMetrics.refusedConnections).toBe(1);
    let text = "";
    sockets[0]?.on("data", (data) => (text += data.toString()));
    sockets[0]?.write(post("hello"));
    await until(() => text.startsWith("HTTP/1.1 200"));
    for (const socket of sockets) socket.destroy();
    await until(() => rig.serverMetrics.open === 0);
  });

  test("regression: connections that are refused are told of in the log, once for many: only a counter knew why webhooks got no answer", async () => {
    await using rig = await serverRig({ server: { maxConnections: 1 } });
    const kept = connect(rig.server.port, "127.0.0.1");
    await until(() => rig.serverMetrics.open === 1);
    for (let n = 0; n < 5; n += 1) await exchangeRaw(rig.server.port, [post("hello")]);
    expect(rig.serverMetrics.refusedConnections).toBe(5);
    expect(rig.logged).toMatchObject([
      { level: "warn", message: "ingest.connections_refused", fields: { count: 1, max: 1 } },
    ]);
    kept.destroy();
    await until(() => rig.serverMetrics.open === 0);
  });

  test("a kept connection stays for as long as its answer says, and is closed then", async () => {
    await using rig = await serverRig();
    const answer = await exchangeRaw(rig.server.port, [post("hello")], { deadlineMs: 40_000 });
    expect([answer.status, answer.closed]).toEqual([200, true]);
    const told = /^keep-alive: timeout=(\d+)\r$/m.exec(answer.text)?.[1];
    expect(answer.afterMs).toBeGreaterThan(Number(told) * 1_000);
  });

  test.each([
    "Connection: Close\r\n",
    "Connection: te, close\r\n",
    "Connection: close ,te\r\n",
    "Connection: te, close\r\nConnection: te\r\n",
  ])(
    "the connection is closed behind the answer when its sender asks for it: %j",
    async (asking) => {
      await using rig = await serverRig();
      const answer = await exchangeRaw(rig.server.port, [post("hello", asking)], {
        deadlineMs: 6_000,
      });
      expect([answer.status, answer.closed]).toEqual([200, true]);
    },
  );

  test("it is closed behind a HEAD as well", async () => {
    await using rig = await serverRig();
    const head = `HEAD /in/${TOKEN} HTTP/1.1\r\nHost: x\r\nConnection: te, close\r\n\r\n`;
    const answer = await exchangeRaw(rig.server.port, [head], { deadlineMs: 6_000 });
    expect([answer.status, answer.closed]).toEqual([405, true]);
    expect(answer.text).toMatch(/^connection: close\r$/im);
  });

  test("an answer that closes its connection does not say how long that stays", async () => {
    await using rig = await serverRig();
    const answer = await exchangeRaw(rig.server.port, [post("hello", "Connection: close\r\n")]);
    expect([answer.status, answer.closed]).toEqual([200, true]);
    expect(answer.text).not.toMatch(/^keep-alive:/im);
  });
});

describe("starting and stopping", () => {
  test("a port in use is one line that says what to set", async () => {
    await using rig = await serverRig();
    const second = serverRig({ server: { port: rig.server.port } });
    await expect(second).rejects.toThrow(UsageError);
    await expect(second).rejects.toThrow(
      new RegExp(`127\\.0\\.0\\.1:${rig.server.port}.*RELAY_INGEST_PORT`),
    );
  });

  test("shared ports take several servers", async () => {
    const unused = await serverRig();
    const { port } = unused.server;
    await unused.server.stop(0);
    await using first = await serverRig({ server: { sharePort: true, port } });
    await using second = await serverRig({ server: { sharePort: true, port } });
    expect([first.server.port, second.server.port]).toEqual([port, port]);
    await expect(serverRig({ server: { port } })).rejects.toThrow(UsageError);
  });

  test("no binary for this Node version is one line that names the README", async () => {
    const loading = loadUws(() =>
      Promise.reject(new Error("Cannot find module './uws_linux_x64_999.node'")),
    );
    await expect(loading).rejects.toThrow(/no binary for Node .*README/);
    await expect(loading).rejects.toThrow(UsageError);
  });

  test("a stop lets what is in flight be answered, with Connection: close, and closes the idle ones", async () => {
    const rig = await serverRig();
    rig.log.hold();
    const idle = exchangeRaw(rig.server.port, []);
    const busy = exchangeRaw(rig.server.port, [post("hello")]);
    await until(() => rig.log.appends.length === 1 && rig.serverMetrics.open === 2);
    const stopped = rig.server.stop(5_000);
    const refused = await exchangeRaw(rig.server.port, [post("late")]);
    expect(refused.status).toBe(0);
    rig.log.letGo();
    const answer = await busy;
    expect([answer.status, answer.closed]).toEqual([200, true]);
    expect(answer.text).toMatch(/connection: close/i);
    await stopped;
    expect((await idle).closed).toBe(true);
    await rig.server.stop(0);
  });

  test("a request that comes over an open connection while the server stops is answered, with Connection: close", async () => {
    const rig = await serverRig();
    const socket = connect(rig.server.port, "127.0.0.1");
    const closed = once(socket, "close");
    let answered = "";
    socket.on("data", (chunk: Buffer) => (answered += chunk.toString()));
    socket.write(post("first"));
    await until(() => isWholeAnswer(answered));
    expect(answered).not.toMatch(/connection: close/i);
    answered = "";
    const stopped = rig.server.stop(5_000);
    await new Promise((resolve) => setTimeout(resolve, 50));
    socket.write(post("second"));
    await until(() => isWholeAnswer(answered));
    expect(answered).toMatch(/^HTTP\/1\.1 200 [^]*connection: close/i);
    await closed;
    await stopped;
    expect(rig.log.events.map(({ body }) => Buffer.from(body).toString())).toEqual([
      "first",
      "second",
    ]);
  });

  test("a stop lets what is in flight take longer than the second that open connections get", async () => {
    const rig = await serverRig();
    rig.log.hold();
    const busy = exchangeRaw(rig.server.port, [post("hello")]);
    await until(() => rig.log.appends.length === 1);
    const stopped = rig.server.stop(30_000);
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    rig.log.letGo();
    expect((await busy).status).toBe(200);
    await stopped;
  });

  test("a stop does not wait longer than its grace", async () => {
    const rig = await serverRig();
    rig.log.hold();
    const busy = exchangeRaw(rig.server.port, [post("hello")]);
    await until(() => rig.log.appends.length === 1);
    await rig.server.stop(50);
    expect((await busy).closed).toBe(true);
    rig.log.letGo();
  });

  test("an address of another machine cannot be listened on", async () => {
    const { metrics, handle, logger } = {
      metrics: { malformed() {}, connections() {}, connectionRefused() {}, aborted() {} },
      handle: () => null,
      logger: { debug() {}, info() {}, warn() {}, error() {}, child: () => logger } as never,
    };
    const options = { host: "192.0.2.1", port: 0, sharePort: false, metrics, handle, logger };
    await expect(startIngestServer(options)).rejects.toThrow(UsageError);
  });
});

test("peers are shown as one writes them", () => {
  const mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 192, 0, 2, 1];
  const ipv6 = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
  expect(
    [[192, 0, 2, 1], mapped, ipv6, []].map((bytes) => formatAddress(Uint8Array.from(bytes))),
  ).toEqual(["192.0.2.1", "192.0.2.1", "2001:db8::1", ""]);
});
