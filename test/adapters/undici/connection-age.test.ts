import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, test } from "vitest";
import { makeHttpSender } from "../../../src/adapters/undici/http-sender.ts";
import { parseCidrs } from "../../../src/domain/ip.ts";

const never = new AbortController().signal;

/** Starts a receiver on every loopback address, which answers with the one that it was reached at. */
async function startEverywhere(): Promise<
  AsyncDisposable & { readonly port: number; readonly connections: () => number }
> {
  let connections = 0;
  const server = createServer((request, response) => {
    request.resume();
    response.end(request.socket.localAddress);
  });
  server.on("connection", () => (connections += 1));
  server.listen(0, "0.0.0.0");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    connections: () => connections,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/** Returns where `tries` deliveries, each right after the other, arrived: the receiver's name moves after the first. */
async function deliverWhileMoving(
  port: number,
  tries: number,
  connectionAgeMs?: number,
): Promise<readonly string[]> {
  let address = "127.0.0.1";
  await using sender = makeHttpSender({
    allowPrivate: parseCidrs(["127.0.0.0/8"]),
    timeoutMs: 20_000,
    resolve: async () => [address],
    ...(connectionAgeMs === undefined ? {} : { connectionAgeMs }),
  });
  const reached: string[] = [];
  for (let n = 0; n < tries; n += 1) {
    const url = `http://receiver.example.com:${port}/hook`;
    const reply = await sender.send({ url, headers: [], body: Buffer.from("{}") }, never);
    reached.push(reply.kind === "response" ? reply.body : reply.reason);
    address = "127.0.0.2";
  }
  return reached;
}

describe("a connection in steady use", () => {
  test("regression: is closed once it is old: all deliveries went to the old address of a receiver that had moved, for as long as that one answered", async () => {
    await using receiver = await startEverywhere();
    expect(await deliverWhileMoving(receiver.port, 3, 0)).toEqual([
      "127.0.0.1",
      "127.0.0.2",
      "127.0.0.2",
    ]);
  });

  test("is kept until then", async () => {
    await using receiver = await startEverywhere();
    expect(new Set(await deliverWhileMoving(receiver.port, 10))).toEqual(new Set(["127.0.0.1"]));
    expect(receiver.connections()).toBe(1);
  });
});
