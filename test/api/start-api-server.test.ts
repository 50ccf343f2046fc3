import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { Server } from "node:http";
import { connect } from "node:net";
import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it, vi } from "vitest";
import { startApiServer } from "../../src/api/start-api-server.ts";
import { MalformedRequests } from "../../src/api/refuse-malformed.ts";
import { waitFor } from "../support/wait-for.ts";
import { UsageError } from "../../src/domain/errors.ts";

const app = (answer: () => Response | Promise<Response>) => ({ fetch: () => answer() }) as any;
const hello = app(() => new Response("hello"));
const local = { host: "127.0.0.1", port: 0 };

it("a port that is taken is a usage error of one line that says what to set", async () => {
  await using first = await startApiServer({ app: hello, ...local });
  const second = startApiServer({ app: hello, ...local, port: first.port });
  await expect(second).rejects.toThrow(UsageError);
  await expect(second).rejects.toThrow(
    `port ${first.port} is in use: set RELAY_API_PORT to a free port`,
  );
});

it("a host that is not here is a usage error", async () => {
  await expect(startApiServer({ app: hello, host: "203.0.113.1", port: 0 })).rejects.toThrow(
    /set RELAY_API_HOST/,
  );
});

it("stopping lets a request in flight end, and closes its kept-alive connection", async () => {
  let release = (): void => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  let arrived = (): void => {};
  const arrival = new Promise<void>((resolve) => (arrived = resolve));
  const server = await startApiServer({
    app: app(async () => {
      arrived();
      await released;
      return new Response("late");
    }),
    ...local,
  });
  const answer = fetch(`http://127.0.0.1:${server.port}/`);
  await arrival;
  const stopped = server[Symbol.asyncDispose]();
  await expect(fetch(`http://127.0.0.1:${server.port}/`)).rejects.toThrow();
  // What is still open after the time for requests in flight.
  const cutOff = vi.spyOn(Server.prototype, "closeAllConnections");
  release();
  expect(await (await answer).text()).toBe("late");
  await stopped;
  expect(cutOff).not.toHaveBeenCalled();
  cutOff.mockRestore();
});

it("stopping closes idle connections at once, and twice is once", async () => {
  const server = await startApiServer({ app: hello, ...local });
  await (await fetch(`http://127.0.0.1:${server.port}/`)).text();
  // What is still open after the time for requests in flight.
  const cutOff = vi.spyOn(Server.prototype, "closeAllConnections");
  await server[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
  expect(cutOff).not.toHaveBeenCalled();
  cutOff.mockRestore();
});

it("connections above the most are closed at once, those there are go on", async () => {
  await using server = await startApiServer({ app: hello, ...local, maxConnections: 2 });
  const sockets = Array.from({ length: 6 }, () => connect(server.port, "127.0.0.1"));
  try {
    const closed: unknown[] = [];
    for (const socket of sockets)
      socket.on("error", () => undefined).on("close", () => closed.push(socket));
    await waitFor("four closed connections", () => closed.length === 4);
    const kept = sockets.find((socket) => !closed.includes(socket));
    kept?.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    const [answer] = (await once(kept!, "data")) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 200/);
    expect(closed).toHaveLength(4);
  } finally {
    for (const socket of sockets) socket.destroy();
  }
});

async function askWithHost(host: string): Promise<string> {
  await using server = await startApiServer({ app: hello, ...local });
  const socket = connect(server.port, "127.0.0.1");
  socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
  const [answer] = (await once(socket, "data")) as [Buffer];
  socket.destroy();
  return answer.toString();
}

it.each(["[::1]", "[0:0:0:0:0:0:0:1]:8080", "[::ffff:127.0.0.1]:8080", "[2001:db8:0:0::1]"])(
  "regression: a Host of %s is an address, however it is written: it was malformed",
  async (host) => {
    expect(await askWithHost(host)).toMatch(/^HTTP\/1\.1 200/);
  },
);

it.each(["[::1]?x=1", "[::1]@example.com", "[x]"])(
  "a Host of %s is malformed, whatever stands in brackets",
  async (host) => {
    expect(await askWithHost(host)).toMatch(/^HTTP\/1\.1 400/);
  },
);

it("regression: HTTP/1.0 needs no Host: haproxy, whose checks send none, got a 400 and held the API to be down", async () => {
  await using server = await startApiServer({ app: hello, ...local });
  const socket = connect(server.port, "127.0.0.1");
  socket.write("GET /openapi.json HTTP/1.0\r\n\r\n");
  const [answer] = (await once(socket, "data")) as [Buffer];
  socket.destroy();
  expect(answer.toString()).toMatch(/^HTTP\/1\.1 200/);
});

const malformed: [name: string, request: string, status: string, code?: string][] = [
  ["no HTTP", "hello\r\n\r\n", "400"],
  ["no Host", "GET / HTTP/1.1\r\nConnection: close\r\n\r\n", "400"],
  ["two Hosts", "GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\nConnection: close\r\n\r\n", "400"],
  ["a URL that is not percent-encoded", "GET /events?q=ñ HTTP/1.1\r\nHost: x\r\n\r\n", "400"],
  [
    "a Host that is none",
    "GET /projects HTTP/1.1\r\nHost: a/b?c\r\nConnection: close\r\n\r\n",
    "400",
  ],
  [
    "two lengths",
    "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na",
    "400",
  ],
  // Regression: it was called a validation_error, which is 400.
  [
    "headers over 16 KiB",
    `GET / HTTP/1.1\r\nHost: x\r\nX: ${"x".repeat(20_000)}\r\n\r\n`,
    "431",
    "headers_too_large",
  ],
];
for (const [name, request, status, code = "validation_error"] of malformed)
  it(`a request with ${name} is answered ${status} in the envelope, and the server goes on`, async () => {
    await using server = await startApiServer({ app: hello, ...local });
    const socket = connect(server.port, "127.0.0.1");
    socket.on("error", () => {});
    socket.write(request);
    let text = "";
    socket.on("data", (chunk: Buffer) => (text += chunk.toString()));
    await once(socket, "close");
    expect(text).toMatch(new RegExp(`^HTTP/1.1 ${status}`));
    expect(text).toMatch(/^x-request-id: [0-9a-f-]{36}\r$/im);
    expect(JSON.parse(text.slice(text.indexOf("\r\n\r\n")))).toEqual({
      error: { code, message: expect.any(String) },
      timestamp: expect.stringMatching(/Z$/),
    });
    expect(await (await fetch(`http://127.0.0.1:${server.port}/`)).text()).toBe("hello");
  });

it("regression: a request that does not arrive in time is 408 request_timeout, where it was called a validation_error", () => {
  let text = "";
  const socket = { writable: true, end: (sent: string) => (text = sent), destroy: () => {} };
  const late = Object.assign(new Error("late"), { code: "ERR_HTTP_REQUEST_TIMEOUT" });
  new MalformedRequests({ newRequestId: () => "id" }).refuse(late, socket);
  expect(text).toMatch(/^HTTP\/1\.1 408 Request Timeout\r$/m);
  expect(JSON.parse(text.slice(text.indexOf("\r\n\r\n")))).toMatchObject({
    error: { code: "request_timeout" },
  });
});

it.each([
  ["CONNECT", "CONNECT /projects HTTP/1.1\r\nHost: x\r\n\r\n"],
  ["CONNECT to an authority", "CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n"],
  ["a method in lower case", "get /projects HTTP/1.1\r\nHost: x\r\n\r\n"],
  ["a method of nobody's", "FOO /projects HTTP/1.1\r\nHost: x\r\n\r\n"],
])(
  "regression: %s is 405 with Allow, not an end without a word or a 400 about the URL",
  async (_name, request) => {
    await using server = await startApiServer({ app: hello, ...local });
    const socket = connect(server.port, "127.0.0.1");
    socket.write(request);
    const text = await readToClose(socket);
    expect(text).toMatch(/^HTTP\/1\.1 405 /);
    expect(text).toMatch(/^allow: GET, HEAD, POST, PATCH, DELETE, OPTIONS\r$/im);
    expect(JSON.parse(text.slice(text.indexOf("\r\n\r\n")))).toMatchObject({
      error: { code: "method_not_allowed" },
    });
  },
);

it("regression: a CONNECT behind an answer that nobody reads does not keep the server from its end", async () => {
  const large = "x".repeat(30_000_000);
  let answered = 0;
  const server = await startApiServer({
    app: app(async () => {
      answered += 1;
      return new Response(large);
    }),
    ...local,
  });
  const socket = connect(server.port, "127.0.0.1");
  socket.on("error", () => {}).pause();
  socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  await waitFor("the answer", () => answered === 1);
  socket.write("CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n");
  // CONNECT ends the connection, which would otherwise wait for its reader.
  await once(socket.resume(), "close");
  expect(socket.bytesRead).toBeLessThan(large.length);
  await server[Symbol.asyncDispose]();
});

it("a refusal of what is no request is logged under the id that its answer names", async () => {
  const logged: any[] = [];
  const logger = { info: (fields: object) => void logged.push(fields), error: () => undefined };
  await using server = await startApiServer({ app: hello, logger, ...local });
  for (const request of ["hello\r\n\r\n", "GET / HTTP/1.1\r\nConnection: close\r\n\r\n"]) {
    const socket = connect(server.port, "127.0.0.1");
    socket.write(request);
    const [, requestId] = /^x-request-id: (.+)\r$/im.exec(await readToClose(socket)) ?? [];
    expect(logged.pop()).toEqual({ requestId, operation: "none", status: 400 });
  }
});

it("a request that expects what nobody knows is answered by the app, and not a bare 417", async () => {
  await using server = await startApiServer({ app: hello, ...local });
  const socket = connect(server.port, "127.0.0.1");
  socket.write("GET / HTTP/1.1\r\nHost: x\r\nExpect: 200-ok\r\nConnection: close\r\n\r\n");
  expect(await readToClose(socket)).toMatch(/^HTTP\/1\.1 200[^]*hello$/);
});

/** Reads what a connection gets until the server closes it. */
async function readToClose(socket: Socket): Promise<string> {
  let text = "";
  socket.on("data", (chunk: Buffer) => (text += chunk.toString())).on("error", () => {});
  await once(socket, "close");
  return text;
}

it("what is no HTTP behind a request does not break into its answer, and is answered behind it", async () => {
  let body: ReadableStreamDefaultController | undefined;
  const half = new ReadableStream({
    start(controller) {
      body = controller;
      controller.enqueue(Buffer.from("half"));
    },
  });
  await using server = await startApiServer({
    app: app(() => new Response(half, { headers: { "content-length": "8" } })),
    ...local,
  });
  const socket = connect(server.port, "127.0.0.1");
  const answered = readToClose(socket);
  socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  await once(socket, "data");
  socket.write("hello\r\n\r\n");
  await sleep(50);
  body?.enqueue(Buffer.from("more"));
  body?.close();
  expect(await answered).toMatch(/^HTTP\/1\.1 200[^]*halfmoreHTTP\/1\.1 400[^]*validation_error/);
});

it("a body that is no HTTP does not break into the answer that was begun before it came", async () => {
  const half = new ReadableStream({
    start(controller) {
      controller.enqueue(Buffer.from("half"));
    },
  });
  await using server = await startApiServer({
    app: app(() => new Response(half, { headers: { "content-length": "500" } })),
    ...local,
  });
  const socket = connect(server.port, "127.0.0.1");
  const answered = readToClose(socket);
  socket.write("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  await once(socket, "data");
  socket.write("no chunk\r\n");
  expect(await answered).toMatch(/^HTTP\/1\.1 200[^]*half$/);
});

it("requests that came whole are answered before what is no HTTP: what they had done was told as 400", async () => {
  let release = (): void => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  let requests = 0;
  await using server = await startApiServer({
    app: app(async () => {
      requests += 1;
      await released;
      return new Response("done", { status: 201 });
    }),
    ...local,
  });
  const socket = connect(server.port, "127.0.0.1");
  const answered = readToClose(socket);
  const post = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}";
  socket.write(`${post}${post}\0`);
  await waitFor("both requests", () => requests === 2);
  socket.write("\0\0\0");
  release();
  const text = await answered;
  expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 201", "HTTP/1.1 201", "HTTP/1.1 400"]);
});

it("bytes behind a request that closes its connection change nothing of its answer", async () => {
  await using server = await startApiServer({
    app: app(async () => {
      await sleep(20);
      return new Response("done", { status: 201 });
    }),
    ...local,
  });
  const socket = connect(server.port, "127.0.0.1");
  const answered = readToClose(socket);
  const head = "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n";
  socket.write(`${head}{}\0`);
  expect((await answered).match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 201"]);
});

it("a request whose body is no HTTP is answered 400 behind the answer to the one before it", async () => {
  await using server = await startApiServer({
    app: {
      fetch: async (request: Request) =>
        request.method === "GET" ? (await sleep(20), new Response("first")) : request.text(),
    } as any,
    ...local,
  });
  const socket = connect(server.port, "127.0.0.1");
  const answered = readToClose(socket);
  socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  socket.write("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\ng\r\n");
  expect((await answered).match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 200", "HTTP/1.1 400"]);
});

/** Sends a request, and reads none of the answer until `take` is called, which returns how many bytes came. */
async function askWithoutReading(port: number, key: string) {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => undefined).pause();
  await once(socket, "connect");
  socket.write(
    `GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nConnection: close\r\n\r\n`,
  );
  return {
    async take(): Promise<number> {
      let sizeBytes = 0;
      socket.on("data", (chunk) => (sizeBytes += chunk.length));
      const closed = once(socket, "close");
      socket.resume();
      await closed;
      return sizeBytes;
    },
  };
}

const LARGE_BYTES = 24 * 1024 * 1024;

it("answers that nobody takes are bounded: of the caller who has most the oldest is cut off", async () => {
  let answered = 0;
  await using server = await startApiServer({
    app: app(() => {
      answered += 1;
      return new Response("x".repeat(LARGE_BYTES));
    }),
    ...local,
    maxUnsentBytes: 4 * LARGE_BYTES,
  });
  const ask = async (key: string) => {
    const asked = await askWithoutReading(server.port, key);
    const number = answered;
    await waitFor("an answer", () => answered > number);
    return asked;
  };
  const other = await ask("other");
  const greedy = [];
  for (let number = 0; number < 8; number += 1) greedy.push(await ask("greedy"));
  const sizes = [];
  for (const asked of greedy) sizes.push(await asked.take());
  expect(sizes.slice(0, 5).every((size) => size < LARGE_BYTES)).toBe(true);
  expect(sizes.slice(-2).every((size) => size > LARGE_BYTES)).toBe(true);
  expect(await other.take()).toBeGreaterThan(LARGE_BYTES);
});

it("a client that takes nothing of its answer for long is cut off", async () => {
  await using server = await startApiServer({
    app: app(() => new Response("x".repeat(LARGE_BYTES))),
    ...local,
    stalledMs: 300,
  });
  const accepted: Socket[] = [];
  const onAccepted = (message: unknown): void =>
    void accepted.push((message as { readonly socket: Socket }).socket);
  subscribe("net.server.socket", onAccepted);
  try {
    const asked = await askWithoutReading(server.port, "slow");
    await waitFor("the cut", () => accepted[0]?.destroyed);
    expect(await asked.take()).toBeLessThan(LARGE_BYTES);
  } finally {
    unsubscribe("net.server.socket", onAccepted);
  }
});

it("regression: a header behind a thousand others is read: the key that came last was dropped, and the answer said that there was none", async () => {
  const seen: (string | null)[] = [];
  const fetchApp = ({ headers }: Request): Response => {
    seen.push(headers.get("authorization"));
    return new Response("hello");
  };
  await using server = await startApiServer({ app: { fetch: fetchApp }, ...local });
  const socket = connect(server.port, "127.0.0.1");
  try {
    const many = Array.from({ length: 1_500 }, (_, index) => `x-${index}: 1\r\n`).join("");
    socket.write(`GET / HTTP/1.1\r\nHost: x\r\n${many}Authorization: Bearer last\r\n\r\n`);
    const [answer] = (await once(socket, "data")) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 200/);
    expect(seen).toEqual(["Bearer last"]);
  } finally {
    socket.destroy();
  }
});
