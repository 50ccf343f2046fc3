import { createServer as createHttp, type RequestListener } from "node:http";
import { createServer as createHttps } from "node:https";
import { connect, createServer as createTcp, type AddressInfo, type Socket } from "node:net";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { until } from "./wait-for.ts";
import type { Certificate } from "./undici-certificates.ts";

export interface Receiver extends AsyncDisposable {
  readonly port: number;
  readonly url: string;
  /** TCP connections accepted so far. */
  readonly connections: () => number;
  readonly openSockets: () => number;
}

/** Starts a real HTTP(S) server on 127.0.0.1, port 0. */
export async function startReceiver(
  listener: RequestListener,
  tls?: Certificate,
): Promise<Receiver> {
  const server = tls === undefined ? createHttp(listener) : createHttps({ ...tls }, listener);
  return listen(server, tls === undefined ? "http" : "https");
}

/** Starts a bare TCP server, for answers that no HTTP library would give. */
export async function startTcpReceiver(onSocket: (socket: Socket) => void): Promise<Receiver> {
  return listen(createTcp(onSocket), "http");
}

async function listen(server: ReturnType<typeof createTcp>, scheme: string): Promise<Receiver> {
  const sockets = new Set<Socket>();
  let connections = 0;
  server.on("connection", (socket: Socket) => {
    connections += 1;
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `${scheme}://127.0.0.1:${port}/hook`,
    connections: () => connections,
    openSockets: () => sockets.size,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

interface Apart<Ready> extends AsyncDisposable {
  /** The script's first message. */
  readonly ready: Ready;
}

/** Runs a script in a process of its own until it is disposed. */
async function runApart<Ready>(script: string, ...args: readonly string[]): Promise<Apart<Ready>> {
  const child = spawn(process.execPath, ["-e", script, ...args], {
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const [ready] = (await once(child, "message")) as [Ready];
  return {
    ready,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await once(child, "exit");
    },
  };
}

/** Connects as often as fills a listener's accept queue. */
function fill(host: string, port: number): Socket[] {
  return Array.from({ length: FILL }, () => connect({ port, host }).on("error", () => {}));
}

/** Its accept queue is full while it blocks: the kernel drops another connection's first SYN and accepts the second, a second later. */
const SLOW_ACCEPTOR = `
  const server = require("node:net").createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => socket.end("HTTP/1.1 200 OK\\r\\ncontent-length: 0\\r\\n\\r\\n"));
  });
  server.listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => {
    process.send(server.address().port, () =>
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 900));
  });`;
const FILL = 4;

/** Starts a receiver on 127.0.0.1 whose next connection takes a second (on Linux). */
export async function startSlowAcceptor(): Promise<AsyncDisposable & { readonly port: number }> {
  const acceptor = await runApart<number>(SLOW_ACCEPTOR);
  const port = acceptor.ready;
  const filling = fill("127.0.0.1", port);
  await Promise.race(filling.map((socket) => once(socket, "connect")));
  return {
    port,
    async [Symbol.asyncDispose]() {
      for (const socket of filling) socket.destroy();
      await acceptor[Symbol.asyncDispose]();
    },
  };
}

/** Their accept queues are full and stay so: the kernel drops every further SYN, as a host that is down does not answer it. */
const SILENT_ACCEPTORS = `
  const [port, ...hosts] = process.argv.slice(1);
  let left = hosts.length;
  for (const host of hosts)
    require("node:net").createServer().listen({ port: Number(port), host, backlog: 1 }, () => {
      left -= 1;
      if (left === 0)
        process.send("up", () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0));
    });`;

/** Takes a port at each of the addresses and lets no connection to it come about (on Linux). */
export async function startSilentAcceptors(
  hosts: readonly string[],
  port: number,
): Promise<AsyncDisposable> {
  const acceptors = await runApart(SILENT_ACCEPTORS, String(port), ...hosts);
  const filling = hosts.flatMap((host) => fill(host, port));
  // The queue holds one more than its length.
  await until(
    () => filling.filter((socket) => !socket.connecting).length >= 2 * hosts.length,
    "the queues are full",
  );
  return {
    async [Symbol.asyncDispose]() {
      for (const socket of filling) socket.destroy();
      await acceptors[Symbol.asyncDispose]();
    },
  };
}

const RECEIVER_APART = `
  const [answerMs] = process.argv.slice(1);
  const server = require("node:http").createServer((request, response) => {
    request.resume();
    if (request.url === "/") setTimeout(() => response.end("ok"), Number(answerMs));
  });
  server.listen(0, "127.0.0.1", () => process.send(server.address().port));`;

/** Starts a receiver in its own process that answers after `answerMs`, and only requests for `/`. */
export async function startReceiverApart(
  answerMs: number,
): Promise<AsyncDisposable & { readonly port: number }> {
  const receiver = await runApart<number>(RECEIVER_APART, String(answerMs));
  return {
    port: receiver.ready,
    [Symbol.asyncDispose]: () => receiver[Symbol.asyncDispose](),
  };
}
