import type { ServerResponse } from "node:http";
import { afterEach, describe, expect, test } from "vitest";
import { parseCidrs } from "../../../src/domain/ip.ts";
import {
  makeHttpSender,
  type HttpSender,
  type HttpSenderOptions,
} from "../../../src/adapters/undici/http-sender.ts";
import {
  startReceiver,
  startReceiverApart,
  startSilentAcceptors,
  startSlowAcceptor,
  startTcpReceiver,
} from "../../support/undici-receivers.ts";
import { until } from "../../support/wait-for.ts";
import { cpuSecondsOf } from "../../support/cpu-seconds.ts";

const stack: AsyncDisposable[] = [];
const own = <T extends AsyncDisposable>(resource: T): T => {
  stack.push(resource);
  return resource;
};
afterEach(async () => {
  while (stack.length > 0) await stack.pop()?.[Symbol.asyncDispose]();
});

const loopback = parseCidrs(["127.0.0.0/8", "::1/128"]);
const newSender = (options: Partial<HttpSenderOptions> = {}): HttpSender =>
  own(
    makeHttpSender({ allowPrivate: loopback, timeoutMs: 20_000, idleTimeoutMs: 200, ...options }),
  );
const never = new AbortController().signal;
const request = (url: string, body = "hello") => ({
  url,
  headers: [
    ["content-type", "text/plain"],
    ["webhook-id", "evt_1"],
  ] as const,
  body: Buffer.from(body),
});

const CHUNKED = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

/** Blocks, like a process that is frozen or a machine that sleeps. */
function standStill(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

describe("answers", () => {
  test("a delivery is a POST of the raw bytes, its headers as given, and the answer comes back", async () => {
    const seen: unknown[] = [];
    const receiver = own(
      await startReceiver((req, res) => {
        const chunks: Buffer[] = [];
        req.on("data", (chunk: Buffer) => chunks.push(chunk));
        req.on("end", () => {
          seen.push(req.method, req.url, req.headers, Buffer.concat(chunks));
          const date = "Fri, 06 Nov 2026 08:49:37 GMT";
          res.writeHead(202, { "retry-after": "7", date }).end("thanks");
        });
      }),
    );
    const bytes = Buffer.from([0, 255, 128, 10, 13]);
    const reply = await newSender().send({ ...request(`${receiver.url}?a=b`), body: bytes }, never);
    expect(reply).toMatchObject({
      kind: "response",
      status: 202,
      retryAfter: "7",
      date: "Fri, 06 Nov 2026 08:49:37 GMT",
      body: "thanks",
    });
    expect(seen).toEqual([
      "POST",
      "/hook?a=b",
      {
        host: `127.0.0.1:${receiver.port}`,
        connection: "keep-alive",
        "content-type": "text/plain",
        "content-length": "5",
        "webhook-id": "evt_1",
      },
      bytes,
    ]);
  });

  test("a header's value goes out as its UTF-8, as it came", async () => {
    let seen = "";
    const receiver = own(
      await startReceiver((req, res) => {
        seen = String(req.headers["x-github-event"]);
        res.end();
      }),
    );
    const value = "caf\u00e9 \u4f60\u{1f980} push";
    const headers = [["x-github-event", value]] as const;
    const reply = await newSender().send({ ...request(receiver.url), headers }, never);
    expect(reply).toMatchObject({ kind: "response", status: 200 });
    expect(Buffer.from(seen, "latin1").toString("utf8")).toBe(value);
  });

  test("redirects are not followed", async () => {
    const receiver = own(
      await startReceiver((_req, res) => {
        res.writeHead(307, { location: "/elsewhere" }).end();
      }),
    );
    expect(await newSender().send(request(receiver.url), never)).toMatchObject({
      kind: "response",
      status: 307,
    });
    expect(receiver.connections()).toBe(1);
  });

  test("a gigabyte answer is read to 64 KiB, stored to 16 KiB, and its connection closed", async () => {
    let writtenBytes = 0;
    const receiver = own(
      await startReceiver((_req, res) => {
        const chunk = Buffer.alloc(64 * 1024, "é");
        const write = () => {
          while (!res.destroyed && writtenBytes < 1e9) {
            writtenBytes += chunk.length;
            if (!res.write(chunk)) {
              res.once("drain", write);
              return;
            }
          }
        };
        write();
      }),
    );
    const reply = await newSender().send(request(receiver.url), never);
    if (reply.kind !== "response") throw new Error(JSON.stringify(reply));
    expect(reply.status).toBe(200);
    expect(Buffer.byteLength(reply.body)).toBe(16 * 1024);
    await until(() => receiver.openSockets() === 0, "the connection is closed");
    expect(writtenBytes).toBeLessThan(50e6);
  });

  test("a compressed answer is not inflated", async () => {
    const receiver = own(
      await startReceiver((_req, res) => {
        res.writeHead(200, { "content-encoding": "gzip" }).end(Buffer.from([0x1f, 0x8b, 8, 0]));
      }),
    );
    expect(await newSender().send(request(receiver.url), never)).toMatchObject({
      status: 200,
      body: "[response body is compressed and was not decoded]",
    });
  });

  test("an answer without content is empty, compressed or not", async () => {
    const receiver = own(
      await startReceiver((_req, res) => {
        res.writeHead(503, { "content-encoding": "gzip" }).end();
      }),
    );
    expect(await newSender().send(request(receiver.url), never)).toMatchObject({
      status: 503,
      body: "",
    });
  });

  test("an empty Content-Encoding is none", async () => {
    const receiver = own(
      await startReceiver((_req, res) => {
        res.writeHead(500, { "content-encoding": "" }).end("out of disk");
      }),
    );
    expect(await newSender().send(request(receiver.url), never)).toMatchObject({
      body: "out of disk",
    });
  });

  test("a multi-byte character is not cut in half", async () => {
    const receiver = own(
      await startReceiver((_req, res) => {
        res.end(`a${"€".repeat(10_000)}`);
      }),
    );
    const reply = await newSender().send(request(receiver.url), never);
    if (reply.kind !== "response") throw new Error(JSON.stringify(reply));
    expect(reply.body).toBe(`a${"€".repeat(Math.floor((16 * 1024 - 1) / 3))}`);
  });

  test("a long answer that is no UTF-8 is kept: of one whose bytes all look like the inside of a character nothing was left", async () => {
    const receiver = own(
      await startReceiver((_req, res) => {
        res.end(Buffer.alloc(20_000, 0x80));
      }),
    );
    const reply = await newSender().send(request(receiver.url), never);
    if (reply.kind !== "response") throw new Error(JSON.stringify(reply));
    expect(reply.body).toBe("\ufffd".repeat(16 * 1024));
  });

  test.each([
    ["100 Continue that nobody asked for", "HTTP/1.1 100 Continue\r\n\r\n"],
    [
      "several interim answers",
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n",
    ],
  ])("%s is read over: the answer follows", async (_name, interim) => {
    const receiver = own(
      await startTcpReceiver((socket) => {
        socket.on("data", (chunk) => {
          if (!chunk.toString().endsWith("hello")) return;
          socket.write(interim);
          setTimeout(() => socket.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"), 20);
        });
      }),
    );
    const sender = newSender({ maxConnectionsPerReceiver: 1 });
    const answer = { kind: "response", status: 200, body: "ok" };
    expect(await sender.send(request(receiver.url), never)).toMatchObject(answer);
    expect(await sender.send(request(receiver.url), never)).toMatchObject(answer);
    expect(receiver.connections()).toBe(1);
  });

  test.each([
    ["204", "HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\nok", 204],
    ["304", "HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", 304],
  ])("a %s has no body, whatever its Content-Length says", async (_name, answer, status) => {
    const receiver = own(
      await startTcpReceiver((socket) => {
        socket.on("data", () => socket.write(answer));
      }),
    );
    const sender = newSender();
    for (let n = 0; n < 2; n += 1)
      expect(await sender.send(request(receiver.url), never)).toMatchObject({
        kind: "response",
        status,
        body: "",
      });
  });

  test("one connection serves many deliveries, and no more connections than the bound are opened", async () => {
    const receiver = own(
      await startReceiver((_req, res) => {
        setTimeout(() => res.end("ok"), 5);
      }),
    );
    const sender = newSender({ maxConnectionsPerReceiver: 3 });
    const replies = await Promise.all(
      Array.from({ length: 60 }, () => sender.send(request(receiver.url), never)),
    );
    expect(replies.every((reply) => reply.kind === "response")).toBe(true);
    expect(receiver.connections()).toBe(3);
  });

  test("tries open no more connections than are in flight: each one that followed on another opened its own, which a receiver that serves one at a time let wait", async () => {
    const receiver = own(await startReceiver((_req, res) => res.end("ok")));
    const sender = newSender({ idleTimeoutMs: 30_000 });
    const sendInTurn = async () => {
      for (let n = 0; n < 10; n += 1)
        expect(await sender.send(request(receiver.url), never)).toMatchObject({ body: "ok" });
    };
    await sendInTurn();
    expect(receiver.connections()).toBe(1);
    await Promise.all([sendInTurn(), sendInTurn(), sendInTurn()]);
    expect(receiver.connections()).toBe(3);
  });

  test("an unused connection is closed before a receiver closes it that keeps one for 2 s and does not say so: tries failed that nobody had read", async () => {
    const receiver = own(
      await startTcpReceiver((socket) => {
        socket.on("data", () => socket.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"));
      }),
    );
    const sender = newSender({ idleTimeoutMs: 30_000 });
    const openMs: number[] = [];
    for (let round = 0; round < 3; round += 1) {
      expect((await sender.send(request(receiver.url), never)).kind).toBe("response");
      const startedMs = performance.now();
      await until(() => receiver.openSockets() === 0, "the connection is closed");
      openMs.push(performance.now() - startedMs);
    }
    // The minimum: the machine may hold up some of them, a sender that waits too long holds up all.
    expect(Math.min(...openMs)).toBeLessThan(1_900);
  });

  test("a receiver that hangs takes no connections from another on the same host", async () => {
    const receiver = own(
      await startReceiver((req, res) => {
        if (req.url !== "/hook/hangs") res.end("ok");
      }),
    );
    const sender = newSender({ maxConnectionsPerReceiver: 2, timeoutMs: 20_000 });
    const stop = new AbortController();
    const hanging = Array.from({ length: 10 }, () =>
      sender.send(request(`${receiver.url}/hangs`), stop.signal).catch(() => "stopped"),
    );
    const replies = await Promise.all(
      ["/a", "/b", "/a"].map((path) => sender.send(request(receiver.url + path), never)),
    );
    expect(replies.map((reply) => reply.kind)).toEqual(["response", "response", "response"]);
    stop.abort();
    expect(new Set(await Promise.all(hanging))).toEqual(new Set(["stopped"]));
  });

  test("regression: with as many connections open as may be kept, further ones are closed after use: those to a thousand receivers used up the file descriptors", async () => {
    const kept = 3;
    const receiver = own(await startReceiver((_req, res) => res.end("ok")));
    const sender = newSender({ maxKeptConnections: kept, idleTimeoutMs: 30_000 });
    const sendTo = async (path: string) =>
      expect(await sender.send(request(`${receiver.url}/${path}`), never)).toMatchObject({
        body: "ok",
      });
    for (let n = 0; n < kept; n += 1) await sendTo(String(n));
    expect(receiver.connections()).toBe(kept);
    for (let n = 1; n <= 3; n += 1) {
      await sendTo("more");
      expect(receiver.connections()).toBe(kept + n);
    }
  });

  test("each URL has connections of its own as it is written, since tries are counted so: one in other words took them away", async () => {
    const receiver = own(await startReceiver((_req, res) => setTimeout(() => res.end("ok"), 200)));
    const sender = newSender({ maxConnectionsPerReceiver: 1, timeoutMs: 20_000 });
    const sameInOtherWords = receiver.url.replace("http:", "HTTP:");
    expect(sameInOtherWords).not.toBe(receiver.url);
    const replies = await Promise.all(
      [receiver.url, sameInOtherWords].map((url) => sender.send(request(url), never)),
    );
    expect(replies.map((reply) => reply.kind)).toEqual(["response", "response"]);
    expect(receiver.connections()).toBe(2);
  });

  test("the pool of an idle receiver is closed", async () => {
    const receiver = own(await startReceiver((_req, res) => res.end()));
    const sender = newSender({ idleTimeoutMs: 50 });
    await sender.send(request(receiver.url), never);
    expect(receiver.openSockets()).toBe(1);
    await until(() => receiver.openSockets() === 0, "the pool is closed");
    expect(await sender.send(request(receiver.url), never)).toMatchObject({ status: 200 });
  });
});

describe("what goes wrong", () => {
  test("a receiver that never answers is a timeout", async () => {
    const receiver = own(await startTcpReceiver((socket) => socket.resume()));
    const reply = await newSender({ timeoutMs: 1_000 }).send(request(receiver.url), never);
    expect(reply).toMatchObject({ kind: "timeout", reason: "no complete answer within 1000 ms" });
    expect(reply.latencyMs).toBeGreaterThan(900);
    await until(() => receiver.openSockets() === 0, "the connection is closed");
  });

  test("a try that never got a connection says that nothing was sent, and why", async () => {
    const receiver = own(await startTcpReceiver((socket) => socket.resume()));
    const sender = newSender({ timeoutMs: 300, maxConnectionsPerReceiver: 1 });
    const taken = sender
      .fetchGuarded(receiver.url, { maxBytes: 1, timeoutMs: 600 })
      .catch(() => "ended");
    expect(await sender.send(request(receiver.url), never)).toMatchObject({
      kind: "timeout",
      reason:
        "no connection within 300 ms: nothing was sent, since more tries to this URL were under way than the 1 that one process makes at once",
    });
    expect(await taken).toBe("ended");
    const slow = newSender({ timeoutMs: 300, resolve: () => new Promise(() => undefined) });
    expect(await slow.send(request("https://receiver.example.com/"), never)).toMatchObject({
      kind: "timeout",
      reason: "no connection within 300 ms: nothing was sent",
    });
  });

  test("an answer that came while the process stood still beyond the time limit counts: the receiver got its delivery once more", async () => {
    const receiver = own(await startReceiverApart(50));
    const sender = newSender({ timeoutMs: 1_000 });
    const target = request(`http://127.0.0.1:${receiver.port}/`);
    const reply = sender.send(target, never, () => setImmediate(() => standStill(2_000)));
    expect(await reply).toMatchObject({ kind: "response", status: 200 });
    const later = sender.send({ ...target, url: `${target.url}late` }, never, () =>
      setImmediate(() => standStill(2_000)),
    );
    expect(await later).toMatchObject({ kind: "timeout" });
  });

  test("a try whose connection was made while the process stood still beyond the time limit is not sent: by then another process may have made it", async () => {
    let requests = 0;
    const receiver = own(
      await startReceiver((_req, res) => {
        requests += 1;
        res.end("ok");
      }),
    );
    // The sender connects in the first immediate, and learns of it only after the second one.
    const sender = newSender({
      timeoutMs: 300,
      resolve: () =>
        new Promise((resolve) => {
          setImmediate(() => resolve(["127.0.0.1"]));
          setImmediate(() => standStill(600));
        }),
    });
    let sent = 0;
    const target = request(receiver.url.replace("127.0.0.1", "receiver.example.com"));
    const reply = await sender.send(target, never, () => (sent += 1));
    expect(reply).toMatchObject({
      kind: "timeout",
      reason: expect.stringMatching(/nothing was sent/),
    });
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect({ sent, requests }).toEqual({ sent: 0, requests: 0 });
  });

  test("an answer that drips is a timeout: the limit is for the whole try", async () => {
    const receiver = own(
      await startReceiver((_req, res) => {
        res.writeHead(200);
        const drip = setInterval(() => res.write("."), 20);
        res.on("close", () => clearInterval(drip));
      }),
    );
    const reply = await newSender({ timeoutMs: 300 }).send(request(receiver.url), never);
    expect(reply.kind).toBe("timeout");
    await until(() => receiver.openSockets() === 0, "the connection is closed");
  });

  test.each([
    ["breaks off", "error", (res: ServerResponse) => void setTimeout(() => res.destroy(), 50)],
    ["never ends", "timeout", () => undefined],
  ] as const)(
    "regression: Retry-After counts where the answer's body %s: the next try came too early",
    async (_, kind, spoil) => {
      const receiver = own(
        await startReceiver((_req, res) => {
          res.writeHead(503, { "retry-after": "7", "content-length": "100" }).write("down");
          spoil(res);
        }),
      );
      const reply = await newSender({ timeoutMs: 1_000 }).send(request(receiver.url), never);
      expect(reply).toMatchObject({ kind, retryAfter: "7", date: expect.stringMatching(/GMT$/) });
    },
  );

  test("headers that drip are a timeout", async () => {
    const receiver = own(
      await startTcpReceiver((socket) => {
        socket.write("HTTP/1.1 200 OK\r\n");
        const drip = setInterval(() => socket.write("x: y\r\n"), 20);
        socket.on("close", () => clearInterval(drip));
      }),
    );
    expect((await newSender({ timeoutMs: 300 }).send(request(receiver.url), never)).kind).toBe(
      "timeout",
    );
  });

  test.each([
    ["its reason phrase", "HTTP/1.1 200 ", "A", "error"],
    ["empty lines before it", "", "\r\n", "error"],
    ["white space in a header", "HTTP/1.1 200 OK\r\na:", " ", "error"],
    ["a chunk's extension", `${CHUNKED}2;a`, "A", "response"],
    ["zeros in a chunk's size", CHUNKED, "0", "response"],
    ["extensions of small chunks", CHUNKED, `1;${"a".repeat(1_000)}\r\nx\r\n`, "response"],
  ])(
    "regression: an answer without an end in %s is broken off: it was read as fast as it came until the try's time was over",
    async (_name, begin, piece, kind) => {
      let socketBytes = (): number => 0;
      const receiver = own(
        await startTcpReceiver((socket) => {
          socketBytes = () => socket.bytesWritten - socket.writableLength;
          const pieces = Buffer.from(piece.repeat(Math.ceil(65_536 / piece.length)));
          const flood = (): void => {
            while (!socket.destroyed) if (!socket.write(pieces)) return;
          };
          socket.on("drain", flood);
          socket.once("data", () => {
            socket.write(begin);
            flood();
          });
        }),
      );
      const reply = await newSender({ timeoutMs: 10_000 }).send(request(receiver.url), never);
      expect(reply.kind).toBe(kind);
      if (reply.kind === "error") expect(reply.reason).toContain("response has no end");
      // Allows for what the kernel's buffers take.
      expect(socketBytes()).toBeLessThan(16 * 1024 * 1024);
    },
  );

  test("an answer in chunks of a byte each is read: what frames them is no flood", async () => {
    const text = "abcdefgh".repeat(5_000);
    const receiver = own(
      await startTcpReceiver((socket) => {
        socket.on("data", () => {
          const chunks = Array.from(text, (letter) => `1\r\n${letter}\r\n`).join("");
          socket.write(`${CHUNKED}${chunks}0\r\n\r\n`);
        });
      }),
    );
    const sender = newSender();
    const limits = { maxBytes: 256 * 1024, timeoutMs: 20_000 };
    const url = receiver.url;
    for (let time = 0; time < 3; time += 1)
      await expect(sender.fetchGuarded(url, limits)).resolves.toBe(text);
    expect(receiver.connections()).toBe(1);
  });

  test("regression: headers without number end the try and nothing else: of 64,000 with one letter each had an error made for it, for half a second of the process", async () => {
    const receiver = own(
      await startTcpReceiver((socket) => {
        socket.once("data", () => {
          socket.write(`HTTP/1.1 200 OK\r\n${"a:\r\n".repeat(64_000)}`);
        });
      }),
    );
    const sender = newSender({ timeoutMs: 30_000, maxConnectionsPerReceiver: 32 });
    const seconds = await cpuSecondsOf(async () => {
      const tries = Array.from({ length: 32 }, () => sender.send(request(receiver.url), never));
      for (const reply of await Promise.all(tries))
        expect(reply).toMatchObject({ kind: "error", reason: "response headers are too large" });
    });
    // With an error made for each header it takes thirteen seconds.
    expect(seconds).toBeLessThan(4);
  });

  test("regression: a refusal that comes before the request is out closes the connection: the next request waited behind the rest of this one", async () => {
    const receiver = own(
      await startTcpReceiver((socket) => {
        socket.once("data", () => {
          socket.pause();
          socket.write("HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n");
        });
      }),
    );
    const sender = newSender({ timeoutMs: 10_000, maxConnectionsPerReceiver: 1 });
    const body = Buffer.alloc(10_000_000);
    for (let time = 0; time < 3; time += 1)
      expect(await sender.send({ ...request(receiver.url), body }, never)).toMatchObject({
        kind: "response",
        status: 413,
      });
    expect(receiver.connections()).toBe(3);
  });

  test.each([
    ["no HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n", "response is not valid HTTP"],
    [
      "endless headers",
      `HTTP/1.1 200 OK\r\nx: ${"y".repeat(40_000)}\r\n\r\n`,
      "response headers are too large",
    ],
    [
      "a cut body",
      "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc",
      "connection closed by the receiver before its answer was complete",
    ],
    ["nothing", "", "connection closed by the receiver before its answer was complete"],
    [
      "endless interim answers",
      "HTTP/1.1 102 Processing\r\n\r\n".repeat(200),
      "too many interim (1xx) responses before the answer",
    ],
    [
      "another protocol",
      "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
      "receiver switched to another protocol (101) instead of an answer",
    ],
    ["status 000", "HTTP/1.1 000 Zero\r\n\r\n", "response is not valid HTTP"],
    [
      "a broken header behind its Content-Length",
      "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nbroken\r\n\r\nok",
      "response is not valid HTTP, or not as long as its Content-Length",
    ],
  ])(
    "a receiver that answers with %s is an error after the request was sent",
    async (_name, answer, reason) => {
      const receiver = own(
        await startTcpReceiver((socket) => {
          socket.once("data", () => socket.end(answer));
        }),
      );
      let sent = 0;
      const reply = await newSender().send(request(receiver.url), never, () => (sent += 1));
      expect(reply).toMatchObject({ kind: "error", reason });
      expect(sent).toBe(1);
    },
  );

  test("a refused connection says so, and that nothing was sent", async () => {
    const receiver = await startReceiver(() => {});
    await receiver[Symbol.asyncDispose]();
    let sent = 0;
    const reply = await newSender().send(request(receiver.url), never, () => (sent += 1));
    expect(reply).toMatchObject({ kind: "error", reason: "connection refused" });
    expect(sent).toBe(0);
  });

  test.runIf(process.platform === "linux")(
    "an address that takes a second to connect to is not given up for one without a route",
    async () => {
      await using receiver = await startSlowAcceptor();
      const sender = newSender({ timeoutMs: 15_000, resolve: async () => ["127.0.0.1", "::1"] });
      expect(
        await sender.send(request(`http://receiver.example.com:${receiver.port}/hook`), never),
      ).toMatchObject({ kind: "response", status: 200 });
    },
  );

  test.runIf(process.platform === "linux")(
    "regression: a receiver whose first addresses are dead is reached by the next try: each try spent its time on them once more",
    async () => {
      const receiver = own(await startReceiver((_req, res) => res.end("ok")));
      const dead = ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6"];
      await using _silent = await startSilentAcceptors(dead, receiver.port);
      // Each address has 250 ms, unless it is the last.
      const sender = newSender({ timeoutMs: 1_000, resolve: async () => [...dead, "127.0.0.1"] });
      const url = `http://receiver.example.com:${receiver.port}/hook`;
      expect(await sender.send(request(url), never)).toMatchObject({ kind: "timeout" });
      expect(receiver.connections()).toBe(0);
      expect(await sender.send(request(url), never)).toMatchObject({ status: 200 });
    },
  );

  test.each([
    ["ENOTFOUND", "receiver host name does not resolve"],
    ["ETIMEOUT", "DNS did not answer"],
    ["ESERVFAIL", "DNS server failed to resolve the receiver host name"],
  ])("resolution that fails with %s has its own reason", async (code, reason) => {
    const sender = newSender({
      resolve: async () => {
        throw Object.assign(new Error(code), { code });
      },
    });
    let sent = 0;
    const target = request("https://receiver.example.com/");
    const reply = await sender.send(target, never, () => (sent += 1));
    expect(reply).toMatchObject({ kind: "error", reason });
    expect(sent).toBe(0);
  });

  test("an abort by the caller rejects with its reason and closes the connection", async () => {
    const receiver = own(await startTcpReceiver((socket) => socket.resume()));
    const controller = new AbortController();
    const sent = newSender().send(request(receiver.url), controller.signal);
    await until(() => receiver.connections() === 1, "the receiver is reached");
    controller.abort(new Error("stopping"));
    await expect(sent).rejects.toThrow("stopping");
    await until(() => receiver.openSockets() === 0, "the connection is closed");
  });
});

describe("fetchGuarded", () => {
  test("gives a small document and refuses other statuses, large ones, slow ones and private hosts", async () => {
    const receiver = own(
      await startReceiver((req, res) => {
        if (req.url === "/jwks") res.end('{"keys":[]}');
        else if (req.url === "/large") res.end("x".repeat(5_000));
        else if (req.url === "/slow") res.write("x");
        else res.writeHead(302, { location: "/jwks" }).end();
      }),
    );
    const base = `http://127.0.0.1:${receiver.port}`;
    const sender = newSender();
    const limits = { maxBytes: 1_000, timeoutMs: 20_000 };
    expect(await sender.fetchGuarded(`${base}/jwks`, limits)).toBe('{"keys":[]}');
    await expect(sender.fetchGuarded(`${base}/moved`, limits)).rejects.toThrow("it answered 302");
    await expect(sender.fetchGuarded(`${base}/large`, limits)).rejects.toThrow(
      "larger than 1000 bytes",
    );
    await expect(
      sender.fetchGuarded(`${base}/slow`, { ...limits, timeoutMs: 100 }),
    ).rejects.toThrow("no answer within 100 ms");
    await expect(sender.fetchGuarded("https://10.0.0.1/jwks", limits)).rejects.toThrow(
      "not public",
    );
  });

  test("regression: a key set in a file with a byte order mark is read: every token that it verifies was refused", async () => {
    const receiver = own(await startReceiver((_req, res) => res.end('\uFEFF{"keys":[]}')));
    const limits = { maxBytes: 1_000, timeoutMs: 20_000 };
    const text = await newSender().fetchGuarded(`http://127.0.0.1:${receiver.port}/`, limits);
    expect(JSON.parse(text)).toEqual({ keys: [] });
  });

  test("says why without the URL: its user information and query are secrets, and the reason is answered to senders", async () => {
    const receiver = own(await startReceiver((_req, res) => res.writeHead(500).end()));
    const sender = newSender();
    const limits = { maxBytes: 1_000, timeoutMs: 500 };
    const urls = [
      "https://user:hunter2@keys.example/jwks",
      `http://127.0.0.1:${receiver.port}/jwks?key=hunter2`,
      "https://10.0.0.1/jwks?key=hunter2",
    ];
    for (const url of urls) {
      const error: unknown = await sender.fetchGuarded(url, limits).catch((caught) => caught);
      expect(error).toBeInstanceOf(Error);
      expect((error as Error).message).not.toContain("hunter2");
    }
  });
});
