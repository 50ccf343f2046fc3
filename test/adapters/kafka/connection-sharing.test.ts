import { connect, type Socket } from "node:net";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { guardConnection } from "../../../src/adapters/kafka/guards/connection-guard.ts";
import { playBroker, type PlayedBroker } from "../../support/played-broker.ts";

interface Connection {
  connect(): Promise<boolean>;
  disconnect(): Promise<boolean>;
  isConnected(): boolean;
  readonly socket: Socket;
}

const CONNECTION_TIMEOUT_MS = 1_000;
let broker: PlayedBroker<Connection>;
let sockets: Socket[];

beforeEach(async () => {
  guardConnection();
  sockets = [];
  // The connections' own timers fire when a test says so, not when the machine is busy.
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  broker = await playBroker<Connection>({
    connectionTimeout: CONNECTION_TIMEOUT_MS,
    socketFactory: ({ port, onConnect }: { port: number; onConnect: () => void }) => {
      const socket = connect(port, "127.0.0.1", onConnect);
      sockets.push(socket);
      return socket;
    },
  });
});

afterEach(async () => {
  vi.useRealTimers();
  await broker[Symbol.asyncDispose]();
});

const nameOf = (error: { readonly name: string }) => error.name;

test("regression: those that connect at the same moment share one connection: each ended the one before, whose timer ended the good one later", async () => {
  const { connection } = broker;
  const connecting = Promise.all([1, 2, 3, 4].map(() => connection.connect()));
  expect(sockets).toHaveLength(1);
  expect(await connecting).toEqual([true, true, true, true]);
  await vi.advanceTimersByTimeAsync(CONNECTION_TIMEOUT_MS * 2);
  expect(connection.isConnected()).toBe(true);
  expect(sockets[0]?.writable).toBe(true);
});

test("regression: a connection that is called off before it is there connects no more, and the next one stays", async () => {
  const { connection } = broker;
  const first = connection.connect().catch(nameOf);
  const calledOff = connection.disconnect();
  const second = connection.connect();
  await calledOff;
  expect(await first).toBe("KafkaJSConnectionError");
  expect(await second).toBe(true);
  expect(sockets.map(({ destroyed }) => destroyed)).toEqual([true, false]);
  await vi.advanceTimersByTimeAsync(CONNECTION_TIMEOUT_MS * 2);
  expect(connection.isConnected()).toBe(true);
  expect(sockets[1]?.writable).toBe(true);
});

test("one that is called off for good is not connected later", async () => {
  const { connection } = broker;
  const first = connection.connect().catch(nameOf);
  await connection.disconnect();
  expect(await first).toBe("KafkaJSConnectionError");
  expect(connection.isConnected()).toBe(false);
  expect(sockets.map(({ destroyed }) => destroyed)).toEqual([true]);
});

test("one that comes to nothing fails all who wait for it, and the next one is tried anew", async () => {
  const { connection } = broker;
  const waiting = [1, 2].map(() => connection.connect().catch(nameOf));
  sockets[0]?.destroy(new Error("no route"));
  expect(await Promise.all(waiting)).toEqual(["KafkaJSConnectionError", "KafkaJSConnectionError"]);
  expect(await connection.connect()).toBe(true);
  expect(sockets).toHaveLength(2);
});

test("one whose end nobody was told of fails when its time is over", async () => {
  const { connection } = broker;
  const waiting = [1, 2].map(() => connection.connect().catch(nameOf));
  sockets[0]?.destroy();
  await vi.advanceTimersByTimeAsync(CONNECTION_TIMEOUT_MS);
  expect(await Promise.all(waiting)).toEqual(["KafkaJSConnectionError", "KafkaJSConnectionError"]);
  expect(await connection.connect()).toBe(true);
});
