import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { networkInterfaces } from "node:os";
import { Worker } from "node:worker_threads";
import { expect, it } from "vitest";
import { reservePort } from "../../src/app/reserve-port.ts";

const hasIPv6 = networkInterfaces()["lo"]?.some(({ address }) => address === "::1") === true;

it.each(["127.0.0.1", "0.0.0.0", "localhost", ...(hasIPv6 ? ["::1"] : [])])(
  "on %s a port that somebody listens on is in use, one that nobody does is free",
  async (host) => {
    const server = createServer().listen(0, host);
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    await expect(reservePort(host, port, "RELAY_API_PORT")).rejects.toThrow(
      `port ${port} is in use: set RELAY_API_PORT to a free port`,
    );
    server.close();
    await once(server, "close");
    expect(await reservePort(host, port, "RELAY_API_PORT")).toBe(port);
  },
);

it("a port that somebody listens on at one address is in use for all of them, and one for the system alone cannot be had", async () => {
  const server = createServer().listen(0, "127.0.0.2");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  await expect(reservePort("0.0.0.0", port, "RELAY_API_PORT")).rejects.toThrow("is in use");
  expect(await reservePort("127.0.0.1", port, "RELAY_API_PORT")).toBe(port);
  server.close();
});

it("names the variable of a host that is not this machine's", async () => {
  await expect(reservePort("203.0.113.1", 4_711, "RELAY_API_PORT")).rejects.toThrow(
    /host 203\.0\.113\.1 cannot be listened on.*set RELAY_API_HOST/,
  );
});

/** Connects to a port again and again, and reports any end but a refusal. From the same local port by chance, it would reach itself. */
const CLIENT = `
  const { parentPort, workerData: port } = require("node:worker_threads");
  const ask = () => {
    const socket = require("node:net").connect(port, "127.0.0.1");
    socket.once("connect", () => {
      if (socket.localPort !== port) parentPort.postMessage("connected");
      socket.destroy();
    });
    socket.once("error", ({ code }) => code === "ECONNREFUSED" || parentPort.postMessage(code));
    socket.once("close", ask);
  };
  ask();
  parentPort.postMessage("asks");
`;

it("regression: takes no connection of clients that wait for the relay: they were reset, 502 behind a proxy", async () => {
  const port = await reservePort("127.0.0.1");
  expect(port).toBeGreaterThan(0);
  const client = new Worker(CLIENT, { eval: true, workerData: port });
  const told: string[] = [];
  client.on("message", (message: string) => told.push(message));
  await once(client, "message");
  for (let round = 0; round < 200; round += 1) await reservePort("127.0.0.1", port);
  await client.terminate();
  expect(told).toEqual(["asks"]);
});
