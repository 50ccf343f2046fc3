import { afterAll, describe, expect, test } from "vitest";
import type { LogError } from "../../../src/domain/log.ts";
import { makeSeededRandom } from "../../faults/harness/random.ts";
import { startTcpProxy } from "../../faults/harness/tcp-proxy.ts";
import { freePorts } from "../../support/stores/free-port.ts";
import { startLocalKafka } from "../../support/stores/kafka-local.ts";
import { freshPrefix, openTestKafkaLog, withAdmin } from "../../support/stores/kafka-harness.ts";
import { skipOrFail } from "../../support/stores/skip-or-fail.ts";
import { untilHeld, waitFor } from "../../support/wait-for.ts";

const PARTITIONS = 6;
const numbers = Array.from({ length: PARTITIONS }, (_, number) => number);
const DEADLINE_MS = 60_000;
const HELD_MS = 8_000;
/** A call that waits for the answer of the one that is mute takes three seconds. */
const WAITED_MS = 2_500;
/** A broker behind a stalling proxy: clients reach it and get no answer; the other brokers bypass the proxy and keep it as a leader. */
const MUTE = 3;

async function startBehindProxies() {
  const advertisedPorts = await freePorts(3);
  const kafka = await startLocalKafka(3, {}, { advertisedPorts });
  const proxies = await Promise.all(
    advertisedPorts.map((port, index) =>
      startTcpProxy({
        target: { host: "127.0.0.1", port: kafka.ports[index]! },
        port,
        random: makeSeededRandom(index),
      }),
    ),
  );
  return { kafka, proxies, brokers: advertisedPorts.map((port) => `127.0.0.1:${port}`) };
}

const started = await startBehindProxies().catch((error: Error) => error);

describe.skipIf(started instanceof Error && skipOrFail("three local Kafka brokers", started))(
  "regression: a leader that takes connections and answers nothing: each append took three seconds and failed, those for the others too, for as long as the cluster kept it",
  { timeout: DEADLINE_MS * 3 },
  () => {
    const { kafka, proxies, brokers } = started as Awaited<ReturnType<typeof startBehindProxies>>;
    afterAll(async () => {
      for (const proxy of proxies) await proxy[Symbol.asyncDispose]();
      await kafka[Symbol.asyncDispose]();
    });

    const partitionsOfMute = async (topic: string) => {
      const { topics } = await withAdmin(brokers, (admin) =>
        admin.fetchTopicMetadata({ topics: [topic] }),
      );
      return topics[0]!.partitions
        .filter(({ leader }) => leader === MUTE)
        .map(({ partitionId }) => partitionId);
    };

    test("those of the others are written meanwhile, and all when it answers again", async () => {
      const topicPrefix = freshPrefix();
      const options = { topicPrefix, partitions: PARTITIONS, replicationFactor: 1 };
      await using log = await openTestKafkaLog(brokers, options);
      const append = (text: string): Promise<LogError | null> =>
        log
          .append(
            numbers.map((partition) => ({
              topic: "events" as const,
              key: "k",
              partition,
              value: Buffer.from(`${text} ${partition}`),
            })),
          )
          .then(
            () => null,
            (failure: LogError) => failure,
          );
      expect(await append("before")).toBeNull();
      const mute = await partitionsOfMute(`${topicPrefix}events`);
      const others = numbers.filter((number) => !mute.includes(number));
      expect(mute).not.toEqual([]);
      expect(others).not.toEqual([]);

      proxies[MUTE - 1]!.setMode("stall");
      const isOthersWritten = (failure: LogError | null) =>
        others.every((number) => (failure?.appended?.[number] ?? null) !== null);
      await waitFor(
        "a call of which the others' are written",
        async () => isOthersWritten(await append("meanwhile")),
        DEADLINE_MS,
      );
      await untilHeld(
        "a call of which the others' are written, and which does not wait for the one that is mute",
        async () => {
          const startedMs = performance.now();
          const failure = await append("meanwhile");
          const tookMs = performance.now() - startedMs;
          expect(failure).not.toBeNull();
          for (const number of mute) expect(failure!.appended?.[number] ?? null).toBeNull();
          return (
            failure!.code === "log_unavailable" && isOthersWritten(failure) && tookMs < WAITED_MS
          );
        },
        HELD_MS,
        DEADLINE_MS,
      );

      proxies[MUTE - 1]!.setMode("pass");
      await waitFor(
        "a call of which all is written",
        async () => (await append("after")) === null,
        DEADLINE_MS,
      );
    });
  },
);
