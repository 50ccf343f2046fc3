import { createServer as createHttpsServer } from "node:https";
import { createSecureContext, createServer as createTlsServer } from "node:tls";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { beforeAll, expect, test } from "vitest";
import { parseCidrs } from "../../../src/domain/ip.ts";
import { makeHttpSender } from "../../../src/adapters/undici/http-sender.ts";
import { makeCertificates, type Certificates } from "../../support/undici-certificates.ts";
import { startReceiver, startTcpReceiver } from "../../support/undici-receivers.ts";
import { until } from "../../support/wait-for.ts";

let certificates: Certificates;
beforeAll(() => {
  certificates = makeCertificates();
});
const never = new AbortController().signal;
const newSender = (ca?: string) =>
  makeHttpSender({
    allowPrivate: parseCidrs(["127.0.0.0/8"]),
    timeoutMs: 20_000,
    resolve: async () => ["127.0.0.1"],
    ...(ca === undefined ? {} : { ca }),
  });
const post = (url: string) => ({ url, headers: [], body: Buffer.from("secret payload") });

test("a receiver with a valid certificate gets the delivery, by address and by name", async () => {
  await using receiver = await startReceiver((_req, res) => res.end("ok"), certificates.good);
  await using sender = newSender(certificates.ca);
  for (const host of ["127.0.0.1", "receiver.example.com", "receiver.example.com."])
    expect(await sender.send(post(`https://${host}:${receiver.port}/`), never)).toMatchObject({
      kind: "response",
      body: "ok",
    });
});

test.each(["TLSv1.2", "TLSv1.3"] as const)(
  "regression: an answer that comes with the end of the handshake is bounded as any other (%s): with TLS 1.2 what came first was not",
  async (version) => {
    const answers = [
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
      `HTTP/1.1 200 OK\r\n${"a:\r\n".repeat(15_000)}`,
    ];
    const versions = { minVersion: version, maxVersion: version };
    const server = createTlsServer({ ...certificates.good, ...versions }, (socket) => {
      socket.on("error", () => {});
      socket.write(answers.shift() ?? "");
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    await using sender = newSender(certificates.ca);
    const send = () => sender.send(post(`https://receiver.example.com:${port}/`), never);
    expect(await send()).toMatchObject({ kind: "response", status: 200, body: "ok" });
    await sender[Symbol.asyncDispose]();
    await using other = newSender(certificates.ca);
    expect(await other.send(post(`https://receiver.example.com:${port}/`), never)).toMatchObject({
      kind: "error",
      reason: "response headers are too large",
    });
    server.close();
  },
);

test.each([
  ["expired", "TLS certificate has expired"],
  ["wrongName", "TLS certificate is for another host name"],
  ["selfSigned", "TLS certificate is self-signed"],
] as const)(
  "a receiver whose certificate is %s gets no byte of the payload",
  async (kind, reason) => {
    let requests = 0;
    let bytes = 0;
    const server = createTlsServer({ ...certificates[kind] }, (socket) => {
      socket.on("error", () => {});
      socket.on("data", (chunk: Buffer) => {
        requests += 1;
        bytes += chunk.length;
      });
    });
    server.on("tlsClientError", () => {});
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    await using sender = newSender(certificates.ca);
    for (let n = 0; n < 20; n += 1)
      expect(await sender.send(post(`https://receiver.example.com:${port}/`), never)).toMatchObject(
        {
          kind: "error",
          reason,
        },
      );
    server.close();
    expect({ requests, bytes }).toEqual({ requests: 0, bytes: 0 });
  },
);

test.each([
  ["speaks HTTP/2 only", { ALPNProtocols: ["h2"] }, "receiver does not speak HTTP/1.1 over TLS"],
  [
    "speaks an old TLS only",
    { minVersion: "TLSv1", maxVersion: "TLSv1.1", ciphers: "ALL@SECLEVEL=0" },
    "receiver speaks neither TLS 1.2 nor 1.3",
  ],
] as const)(
  "a receiver that %s is told what it lacks: the handshake failed, it said",
  async (_name, options, reason) => {
    const server = createTlsServer({ ...certificates.good, ...options });
    server.on("tlsClientError", () => {});
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    await using sender = newSender(certificates.ca);
    let sent = 0;
    const target = post(`https://127.0.0.1:${port}/`);
    const reply = await sender.send(target, never, () => (sent += 1));
    expect(reply).toMatchObject({ kind: "error", reason });
    expect(sent).toBe(0);
    server.close();
  },
);

test("a bad certificate costs one handshake a second, and a renewed one is taken after that", async () => {
  let certificate = certificates.expired;
  let handshakes = 0;
  const server = createHttpsServer(
    { SNICallback: (_name, done) => done(null, createSecureContext(certificate)) },
    (_request, response) => response.end("ok"),
  );
  server.on("connection", () => (handshakes += 1));
  server.on("tlsClientError", () => {});
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  await using sender = newSender(certificates.ca);
  const url = `https://receiver.example.com:${port}/`;
  const startedAtMs = performance.now();
  let sent = 0;
  const send = () => sender.send(post(url), never, () => (sent += 1));
  const replies = await Promise.all(Array.from({ length: 3 }, send));
  for (let n = 0; n < 20; n += 1) replies.push(await send());
  const endedAtMs = performance.now();
  for (const reply of replies)
    expect(reply).toMatchObject({
      kind: "error",
      reason: "TLS certificate has expired",
    });
  expect(sent).toBe(0);
  // Undici dials up to one connection per waiting request; later requests found the fault already known.
  expect(handshakes).toBeLessThanOrEqual(3 + Math.ceil((endedAtMs - startedAtMs) / 1_000));
  certificate = certificates.good;
  // The last handshake may have been just now.
  await until(() => performance.now() - endedAtMs > 1_100, "the fault is forgotten");
  expect(await sender.send(post(url), never)).toMatchObject({ kind: "response", body: "ok" });
  server.closeAllConnections();
  server.close();
});

test("NODE_TLS_REJECT_UNAUTHORIZED=0 does not switch verification off", async () => {
  const before = process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
  process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
  try {
    await using receiver = await startReceiver((_req, res) => res.end("ok"), certificates.good);
    await using sender = newSender();
    expect(await sender.send(post(`https://127.0.0.1:${receiver.port}/`), never)).toMatchObject({
      kind: "error",
      reason: expect.stringContaining("TLS certificate") as string,
    });
  } finally {
    if (before === undefined) delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
    else process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = before;
  }
});

test("a receiver that does not speak TLS gets no payload", async () => {
  const received: Buffer[] = [];
  await using receiver = await startTcpReceiver((socket) => {
    socket.on("data", (chunk: Buffer) => {
      received.push(chunk);
      socket.end("220 mail.example.com ESMTP\r\n");
    });
  });
  await using sender = newSender();
  expect(await sender.send(post(`https://127.0.0.1:${receiver.port}/`), never)).toMatchObject({
    kind: "error",
    reason: "TLS handshake failed",
  });
  expect(Buffer.concat(received).includes("secret payload")).toBe(false);
});

test("proxy variables are ignored", async () => {
  await using proxy = await startTcpReceiver(() => {});
  await using receiver = await startReceiver((_req, res) => res.end("direct"));
  const names = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"];
  const before = names.map((name) => process.env[name]);
  for (const name of names) process.env[name] = `http://127.0.0.1:${proxy.port}`;
  try {
    await using sender = newSender();
    expect(await sender.send(post(receiver.url), never)).toMatchObject({ body: "direct" });
    expect(proxy.connections()).toBe(0);
  } finally {
    names.forEach((name, index) => {
      const value = before[index];
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    });
  }
});
