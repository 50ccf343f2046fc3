import { createRequire } from "node:module";
import { EventEmitter } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";

const load = createRequire(import.meta.url);
const nothing = (): void => undefined;
const logger = {
  namespace: () => logger,
  debug: nothing,
  info: nothing,
  warn: nothing,
  error: nothing,
};
const { MemberAssignment } = load("kafkajs/src/consumer/assignerProtocol.js");
const errors = load("kafkajs/src/errors.js");
const { createErrorFromCode, errorCodes } = load("kafkajs/src/protocol/error.js");

const EVENTS = load("kafkajs/src/consumer/instrumentationEvents.js");
const RETRY = { initialRetryTime: 2, maxRetryTime: 10, retries: 3 };
const PARTITIONS = [0, 1, 2];

/** Returns the error of this type as a broker answers it. */
export function protocolError(type: string): Error {
  return createErrorFromCode(
    errorCodes.find((other: { type: string }) => other.type === type).code,
  );
}
export const closedError = (): Error =>
  new errors.KafkaJSConnectionClosedError("Closed connection", { host: "b2", port: 9092 });
export const outOfRangeError = (topic: string, partition: number): Error =>
  new errors.KafkaJSOffsetOutOfRange(protocolError("OFFSET_OUT_OF_RANGE"), { topic, partition });
export const unreachableError = (host: string): Error =>
  new errors.KafkaJSConnectionError("Connection error: connect ECONNREFUSED", {
    broker: `${host}:9092`,
    code: "ECONNREFUSED",
  });

/**
 * A group member made of kafkajs's own classes, with a fake coordinator that knows generations and three fake brokers that
 * each lead one partition. A hook throws to make its step fail.
 */
export class GroupFake {
  generation = 0;
  readonly counts = { joins: 0, heartbeats: 0, refreshes: 0, commits: 0, crashes: 0, leaves: 0 };
  readonly fetches: Record<string, number> = { 1: 0, 2: 0, 3: 0 };
  /** Generation of each assignment that the member received. */
  readonly assigned: number[] = [];
  /** Whether brokers answer a fetch with what is new of each partition, which is nothing, in place of no partition. */
  answersEmpty = false;
  onFind: () => void = nothing;
  onJoin: () => void | Promise<void> = nothing;
  onSync: () => void = nothing;
  onHeartbeat: () => void = nothing;
  onOffsets: () => void = nothing;
  onConnect: (nodeId: string) => void = nothing;
  onFetch: (nodeId: string) => void | Promise<void> = nothing;
  #member = "";
  readonly #coordinator = {
    isConnected: () => true,
    joinGroup: async ({ memberId }: { memberId: string }) => {
      this.counts.joins += 1;
      await this.onJoin();
      if (memberId !== "" && memberId !== this.#member) throw protocolError("UNKNOWN_MEMBER_ID");
      this.generation += 1;
      this.#member = memberId || `m${this.generation}`;
      const { generation: generationId } = this;
      return { generationId, memberId: this.#member, leaderId: "another", members: [] };
    },
    syncGroup: async () => {
      this.onSync();
      const memberAssignment = MemberAssignment.encode({
        version: 1,
        assignment: { t: PARTITIONS },
      });
      return { memberAssignment };
    },
    heartbeat: async ({ groupGenerationId }: { groupGenerationId: number }) => {
      this.counts.heartbeats += 1;
      this.onHeartbeat();
      if (groupGenerationId !== this.generation) throw protocolError("ILLEGAL_GENERATION");
    },
    offsetCommit: async () => void (this.counts.commits += 1),
    leaveGroup: async () => void (this.counts.leaves += 1),
    offsetFetch: async () => {
      this.onOffsets();
      const partitions = PARTITIONS.map((partition) => ({ partition, offset: "5" }));
      return { responses: [{ topic: "t", partitions }] };
    },
  };
  readonly cluster = {
    brokerPool: {
      metadata: {
        brokers: PARTITIONS.map((id) => ({ nodeId: id + 1, host: `b${id + 1}`, port: 9092 })),
      },
    },
    connect: async () => undefined,
    refreshMetadataIfNecessary: async () => undefined,
    refreshMetadata: async () => void (this.counts.refreshes += 1),
    committedOffsets: () => ({}),
    getNodeIds: () => ["1", "2", "3"],
    findTopicPartitionMetadata: () =>
      PARTITIONS.map((partitionId) => ({ partitionId, leader: partitionId + 1 })),
    findGroupCoordinator: async () => {
      this.onFind();
      return this.#coordinator;
    },
    findBroker: async ({ nodeId }: { nodeId: string }) => {
      this.onConnect(nodeId);
      return { fetch: () => this.#fetch(nodeId) };
    },
  };
  readonly runner: { start(): Promise<void>; stop(): Promise<void> };
  readonly #heartbeatIntervalMs: number;

  constructor({ heartbeatIntervalMs = 0 } = {}) {
    this.#heartbeatIntervalMs = heartbeatIntervalMs;
    this.runner = this.#makeRunner();
  }

  async #fetch(nodeId: string) {
    this.fetches[nodeId]! += 1;
    await sleep(5);
    await this.onFetch(nodeId);
    if (!this.answersEmpty) return { responses: [] };
    const nothingNew = { partition: Number(nodeId) - 1, highWatermark: "5", messages: [] };
    return { responses: [{ topicName: "t", partitions: [nothingNew] }] };
  }

  #makeRunner() {
    const Runner = load("kafkajs/src/consumer/runner.js");
    const ConsumerGroup = load("kafkajs/src/consumer/consumerGroup.js");
    const instrumentationEmitter = new EventEmitter();
    instrumentationEmitter.on(EVENTS.events.GROUP_JOIN, () => this.assigned.push(this.generation));
    const consumerGroup = new ConsumerGroup({
      logger,
      instrumentationEmitter,
      cluster: this.cluster,
      groupId: "g",
      topics: ["t"],
      topicConfigurations: { t: { fromBeginning: true } },
      assigners: [{ name: "a", protocol: () => ({ name: "a", metadata: Buffer.alloc(0) }) }],
      maxWaitTimeInMs: 5,
      autoCommit: false,
      retry: RETRY,
    });
    return new Runner({
      logger,
      consumerGroup,
      instrumentationEmitter,
      concurrency: 1,
      heartbeatInterval: this.#heartbeatIntervalMs,
      retry: RETRY,
      autoCommit: false,
      onCrash: () => void (this.counts.crashes += 1),
    });
  }
}
