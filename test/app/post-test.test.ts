import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { expect, it } from "vitest";
import { postTest } from "../../src/app/post-test.ts";
import { freePorts } from "../support/stores/free-port.ts";
import { until } from "../support/wait-for.ts";

const SECRET = "top-secret-line1\nline2";

it.each([
  ["a value that no header takes", "authorization", `Bearer ${SECRET}`],
  ["a header that the client sets itself", "transfer-encoding", SECRET.replace("\n", " ")],
  ["a header that the client does not send", "expect", SECRET.replace("\n", " ")],
])("a reason never quotes what could not be sent: %s was told in full", async (_, name, value) => {
  const url = `http://127.0.0.1:${(await freePorts(1))[0]}/in/token`;
  const headers: [string, string][] = [[name, value]];
  const answer = await postTest({ url, method: "POST", headers, body: Buffer.from("{}") });
  expect(answer.kind).toBe("unreachable");
  expect(JSON.stringify(answer)).not.toContain("top-secret");
});

it("a refused connection is told by its code", async () => {
  const url = `http://127.0.0.1:${(await freePorts(1))[0]}/in/token`;
  expect(await postTest({ url, method: "POST", headers: [], body: Buffer.from("{}") })).toEqual({
    kind: "unreachable",
    reason: "the request failed (ECONNREFUSED)",
  });
});

it("a token beyond ASCII goes out as UTF-8, which ingest reads: the test of such an endpoint was always refused", async () => {
  let seen = Buffer.alloc(0);
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.on("data", (data) => {
      seen = Buffer.concat([seen, data]);
      if (seen.includes("{}")) socket.end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/in/token`;
    const headers: [string, string][] = [["x-api-key", "geheím 1"]];
    const answer = await postTest({ url, method: "POST", headers, body: Buffer.from("{}") });
    expect(answer).toMatchObject({ kind: "answered", status: 200 });
    expect(seen.includes(Buffer.from("x-api-key: geheím 1\r\n", "utf8"))).toBe(true);
  } finally {
    server.close();
  }
});

it("names the relay as the sender, unless the signature is in that header", async () => {
  const seen: string[] = [];
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.once("data", (data) => {
      seen.push(...(data.toString("latin1").match(/^user-agent:.*$/gim) ?? []));
      socket.end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/in/token`;
    const request = { url, method: "POST", body: Buffer.from("{}") } as const;
    await postTest({ ...request, headers: [] });
    await postTest({ ...request, headers: [["User-Agent", "signature"]] });
    expect(seen).toEqual([
      expect.stringMatching(/^user-agent: webhook-relay\/\d+\.\d+\.\d+$/),
      "User-Agent: signature",
    ]);
  } finally {
    server.close();
  }
});

it("follows no redirect: the webhook with its signature would go where another site says", async () => {
  const asked: string[] = [];
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.once("data", (data) => {
      asked.push(data.toString("latin1").split("\r\n", 1)[0]!);
      socket.end("HTTP/1.1 307 There\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/in/token`;
    const answer = await postTest({ url, method: "POST", headers: [], body: Buffer.from("{}") });
    expect(answer).toMatchObject({ kind: "answered", status: 307 });
    expect(asked).toEqual(["POST /in/token HTTP/1.1"]);
  } finally {
    server.close();
  }
});

it("reads no more than the beginning of an answer: a website that floods was read into memory until the time was up", async () => {
  let closed = false;
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.once("close", () => (closed = true));
    socket.write("HTTP/1.1 200 OK\r\n\r\n");
    const flood = (): void => {
      while (!socket.destroyed && socket.write("x".repeat(65_536)));
    };
    socket.on("drain", flood);
    flood();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/in/token`;
    const answer = await postTest({ url, method: "POST", headers: [], body: Buffer.from("{}") });
    expect(answer).toMatchObject({ kind: "answered", status: 200, body: "x".repeat(65_536) });
    await until(() => closed, "the connection is closed");
  } finally {
    server.close();
  }
});

it("regression: an ingest on port 10080 is reached: fetch refuses this port and some others, so that each test was 503", async () => {
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.once("data", () => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
  });
  const isFree = await new Promise<boolean>((resolve) => {
    server.once("error", () => resolve(false));
    server.listen(10_080, "127.0.0.1", () => resolve(true));
  });
  try {
    const url = "http://127.0.0.1:10080/in/token";
    const answer = await postTest({ url, method: "POST", headers: [], body: Buffer.from("{}") });
    // Whoever has the port: it was asked.
    if (isFree) expect(answer).toMatchObject({ kind: "answered", status: 200 });
    else expect(answer).not.toEqual({ kind: "unreachable", reason: "the request failed" });
  } finally {
    server.close();
  }
});
