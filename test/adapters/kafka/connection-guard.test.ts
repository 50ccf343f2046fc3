import { EventEmitter } from "node:events";
import { afterEach, beforeEach, expect, test } from "vitest";
import { guardConnection } from "../../../src/adapters/kafka/guards/connection-guard.ts";
import { playBroker, type PlayedBroker } from "../../support/played-broker.ts";
import { waitFor } from "../../support/wait-for.ts";

interface Answer {
  readonly correlationId: number;
  readonly payload: Buffer;
}
interface Connection {
  connect(): Promise<boolean>;
  disconnect(): Promise<boolean>;
  readonly requestQueue: {
    fulfillRequest: (answer: Answer) => void;
    rejectAll: (error: Error) => void;
  };
}

/** Makes a response as a broker sends it: size, correlation id, payload. */
function response(correlationId: number, payload: string): Buffer {
  const frame = Buffer.alloc(8 + payload.length);
  frame.writeInt32BE(4 + payload.length, 0);
  frame.writeInt32BE(correlationId, 4);
  frame.write(payload, 8);
  return frame;
}

let broker: PlayedBroker<Connection>;
let answers: string[];
let rejected: string[];

beforeEach(async () => {
  guardConnection();
  guardConnection();
  broker = await playBroker<Connection>({
    requestTimeout: 1_000,
    enforceRequestTimeout: false,
    instrumentationEmitter: new EventEmitter(),
  });
  answers = [];
  rejected = [];
  const { requestQueue } = broker.connection;
  requestQueue.fulfillRequest = ({ correlationId, payload }) =>
    answers.push(`${correlationId} ${payload.toString()}`);
  requestQueue.rejectAll = (error) => rejected.push(error.message);
});

afterEach(() => broker[Symbol.asyncDispose]());

test("regression: a response that was cut in its middle is not the beginning of the next connection's", async () => {
  const first = await broker.connected();
  first.write(
    Buffer.concat([response(1, "whole"), response(2, "cut in its middle").subarray(0, 11)]),
  );
  await waitFor("the whole one", () => answers.length === 1);
  first.resetAndDestroy();
  await waitFor("the cut", () => rejected.length === 1);
  const second = await broker.connected();
  second.write(response(3, "next"));
  await waitFor("the next one", () => answers.length === 2);
  expect(answers).toEqual(["1 whole", "3 next"]);
});

test("regression: bytes that make no sense end their connection, not the process", async () => {
  const first = await broker.connected();
  first.write(Buffer.from([0, 0, 0, 1, 7, 0, 0, 0]));
  await waitFor("the end of the connection", () => rejected.length === 1);
  const second = await broker.connected();
  second.write(response(4, "well again"));
  await waitFor("an answer", () => answers.length === 1);
  expect(answers).toEqual(["4 well again"]);
});
