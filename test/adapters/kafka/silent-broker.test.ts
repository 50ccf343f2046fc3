import { createRequire } from "node:module";
import { afterEach, beforeEach, expect, test } from "vitest";
import { guardConnection } from "../../../src/adapters/kafka/guards/connection-guard.ts";
import { playBroker, type PlayedBroker } from "../../support/played-broker.ts";
import { waitFor } from "../../support/wait-for.ts";

interface Connection {
  connect(): Promise<boolean>;
  disconnect(): Promise<boolean>;
  send(request: object): Promise<unknown>;
}
interface HeartbeatVersions {
  protocol(options: { readonly version: number }): (fields: object) => object;
}

const load = createRequire(import.meta.url);
const REQUEST_TIMEOUT_MS = 150;
const LONG_MS = 60_000;
let broker: PlayedBroker<Connection>;

beforeEach(async () => {
  guardConnection();
  broker = await playBroker<Connection>({
    requestTimeout: REQUEST_TIMEOUT_MS,
    enforceRequestTimeout: true,
  });
});

afterEach(() => broker[Symbol.asyncDispose]());

function heartbeat(): object {
  const { protocol } = load("kafkajs/src/protocol/requests/heartbeat") as HeartbeatVersions;
  return protocol({ version: 0 })({ groupId: "g", groupGenerationId: 1, memberId: "m" });
}

/** Makes a broker's answer to a version 0 heartbeat: size, correlation id, no error. */
function answer(correlationId: number): Buffer {
  const frame = Buffer.alloc(10);
  frame.writeInt32BE(6, 0);
  frame.writeInt32BE(correlationId, 4);
  return frame;
}

test("regression: a broker that answers nothing is left as one that closed: a frozen one was asked for half a minute, and nothing was taken", async () => {
  const { connection } = broker;
  const atBroker = await broker.connected();
  let ended = false;
  atBroker.resume().on("close", () => (ended = true));
  const first = connection.send(heartbeat()).catch((error: unknown) => error);
  const second = connection.send(heartbeat()).catch((error: unknown) => error);
  // On an error of this name kafkajs forgets the broker, and looks for the current leader.
  const left = { name: "KafkaJSConnectionClosedError", host: "127.0.0.1", port: broker.port };
  expect(await first).toMatchObject(left);
  expect(await second).toMatchObject(left);
  await waitFor("the end of the connection", () => ended);
  const next = await broker.connected();
  // A busy machine may take its time to answer.
  const third = connection.send({ ...heartbeat(), requestTimeout: LONG_MS });
  next.once("data", () => next.write(answer(2)));
  expect(await third).toMatchObject({ errorCode: 0 });
});

test("what waits behind a request that may take long says nothing of the broker: the group would be joined again and again", async () => {
  const { connection } = broker;
  const atBroker = await broker.connected();
  atBroker.resume();
  const joining = connection.send({ ...heartbeat(), requestTimeout: LONG_MS });
  const behind = connection.send(heartbeat()).catch((error: unknown) => error);
  expect(await behind).toMatchObject({ name: "KafkaJSRequestTimeoutError" });
  atBroker.write(answer(0));
  expect(await joining).toMatchObject({ errorCode: 0 });
});
