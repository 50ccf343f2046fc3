import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { isAway } from "../../../src/adapters/kafka/guards/away-brokers.ts";
import { fakeBrokerPool } from "../../support/broker-pool-fake.ts";
import { closedError, protocolError, unreachableError } from "../../support/group-fake.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["performance", "setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());

test("regression: a broker that cannot be reached is tried once a second until it can be: nothing was written while it was away", async () => {
  let isGone = true;
  const tried: string[] = [];
  const pool = fakeBrokerPool((nodeId) => {
    tried.push(nodeId);
    if (isGone && nodeId === "2") throw unreachableError("b2");
  });
  await pool.findBroker({ nodeId: "1" });
  await expect(pool.findBroker({ nodeId: "2" })).rejects.toThrow("ECONNREFUSED");
  expect([isAway(pool, 1), isAway(pool, 2)]).toEqual([false, true]);
  await vi.advanceTimersByTimeAsync(2_500);
  expect(tried).toEqual(["1", "2", "2", "2", "2"]);
  expect(isAway(pool, 2)).toBe(true);
  // By now another broker may lead what it led.
  expect(pool.metadataExpireAt).toBeNull();
  isGone = false;
  await vi.advanceTimersByTimeAsync(1_000);
  expect(isAway(pool, 2)).toBe(false);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(tried).toHaveLength(6);
});

test("one that is away is asked what it can do before it counts as connected: to take a connection is not enough", async () => {
  const asked: (object | null)[] = [];
  const pool = fakeBrokerPool((nodeId) => {
    asked.push(pool.brokers[nodeId].versions);
    throw unreachableError("b2");
  });
  await expect(pool.findBroker({ nodeId: "2" })).rejects.toThrow("ECONNREFUSED");
  await vi.advanceTimersByTimeAsync(1_000);
  expect(asked).toEqual([{}, null]);
});

test("a broker that the cluster has no more is not tried any more", async () => {
  const tried: string[] = [];
  const pool = fakeBrokerPool((nodeId) => {
    tried.push(nodeId);
    throw closedError();
  });
  await expect(pool.findBroker({ nodeId: "2" })).rejects.toThrow("Closed connection");
  pool.metadata = { brokers: [{ nodeId: 1 }] };
  await vi.advanceTimersByTimeAsync(5_000);
  expect(tried).toEqual(["2"]);
  expect(isAway(pool, 2)).toBe(false);
});

test("one that the metadata names, and that is not there yet as after it was removed, stays away", async () => {
  const pool = fakeBrokerPool(() => {
    throw unreachableError("b2");
  });
  await expect(pool.findBroker({ nodeId: "2" })).rejects.toThrow("ECONNREFUSED");
  delete pool.brokers[2];
  await vi.advanceTimersByTimeAsync(5_000);
  expect(isAway(pool, 2)).toBe(true);
});

test("a broker that can be reached, and fails otherwise, is not away", async () => {
  const pool = fakeBrokerPool(() => {
    throw protocolError("TOPIC_AUTHORIZATION_FAILED");
  });
  await expect(pool.findBroker({ nodeId: "1" })).rejects.toThrow();
  expect(isAway(pool, 1)).toBe(false);
});

test("one whose connection was closed is not away, for a broker closes those that are idle, but says first what it can do", async () => {
  const asked: (object | null)[] = [];
  const pool = fakeBrokerPool((nodeId) => void asked.push(pool.brokers[nodeId].versions));
  const again = pool.brokers[2];
  pool.removeBroker({ host: "b2", port: 9_092 });
  expect(pool.brokers[2]).toBeUndefined();
  expect(isAway(pool, 2)).toBe(false);
  pool.brokers[2] = again;
  await pool.findBroker({ nodeId: "2" });
  again.versions = {};
  await pool.findBroker({ nodeId: "2" });
  expect(asked).toEqual([null, {}]);
});

test("regression: one that is connected again is not away, however it came to that: what it leads was refused once more", async () => {
  const pool = fakeBrokerPool(() => {
    throw unreachableError("b2");
  });
  await expect(pool.findBroker({ nodeId: "2" })).rejects.toThrow("ECONNREFUSED");
  expect(isAway(pool, 2)).toBe(true);
  pool.brokers[2].isConnected = () => true;
  expect(isAway(pool, 2)).toBe(false);
});

/** Makes a pool that knows that broker 2 cannot be reached. */
async function withoutTheSecond() {
  const tried: string[] = [];
  const pool = fakeBrokerPool((nodeId) => {
    tried.push(nodeId);
    if (nodeId === "2") throw unreachableError("b2");
  });
  await expect(pool.findBroker({ nodeId: "2" })).rejects.toThrow("ECONNREFUSED");
  return { pool, tried };
}

test("regression: the metadata is asked of those that are away last: an append for the others waited for one that is silent", async () => {
  const { pool, tried } = await withoutTheSecond();
  for (let round = 0; round < 20; round += 1)
    expect((await pool.findConnectedBroker()).nodeId).toBe(1);
  expect(tried.filter((nodeId) => nodeId === "2")).toHaveLength(1);
  pool.brokers = { 2: pool.brokers[2] };
  pool.connect = async () => {};
  expect(await pool.findConnectedBroker()).toBe(pool.seedBroker);
});

test("regression: what any broker can be asked goes on to the next one, and comes last to those that are away: one that did not connect ended it", async () => {
  const { pool, tried } = await withoutTheSecond();
  for (let round = 0; round < 20; round += 1)
    expect(await pool.withBroker(async ({ nodeId }: { nodeId: string }) => nodeId)).toBe("1");
  expect(tried.filter((nodeId) => nodeId === "2")).toHaveLength(1);
  const refusing = pool.withBroker(async () => {
    throw protocolError("COORDINATOR_LOAD_IN_PROGRESS");
  });
  await expect(refusing).rejects.toThrow("ECONNREFUSED");
  pool.brokers = { 1: pool.brokers[1] };
  const nobody = pool.withBroker(async () => {
    throw protocolError("COORDINATOR_LOAD_IN_PROGRESS");
  });
  expect(await nobody).toBeNull();
  // On this error kafkajs looks the brokers up first.
  pool.brokers = {};
  await expect(pool.withBroker(async () => "1")).rejects.toThrow("No brokers");
});
