import type { Socket } from "node:net";
import { classToGuard } from "./guard-class.ts";
import { KafkaJSConnectionError } from "../kafkajs.ts";
import { markDamagedBatches } from "./damaged-batches.ts";
import { noteAnswer } from "./doubtful-leaders.ts";
import { markHandedOver } from "../produce/handed-over.ts";
import { isNoAnswer, type ProduceAnswer } from "../produce/produce-answers.ts";
import {
  encodedInOnePass,
  ProduceBlocks,
  type ProduceRequest,
} from "../produce/produce-encoder.ts";

interface PartitionMetadata {
  readonly partitionErrorCode: number;
  readonly leader: number;
}
interface ClusterMetadata {
  readonly topicMetadata: readonly {
    readonly topicErrorCode: number;
    readonly partitionMetadata: readonly PartitionMetadata[];
  }[];
}
interface Response<Answer> {
  readonly decode: (payload: Buffer) => Promise<Answer>;
  readonly parse: (data: Answer) => Promise<unknown>;
}
interface ProtocolRequest<Answer> {
  readonly request: { readonly apiVersion: number };
  readonly response: Response<Answer>;
}
interface Broker {
  readonly connectionPool: { readonly pool: readonly { readonly socket?: Socket | null }[] };
  /** Its API versions; null before they were asked for, as in a seed from the list. */
  readonly versions: object | null;
  lookupRequest: <Answer>(
    apiKey: number,
    versions: object,
  ) => (asked: object) => ProtocolRequest<Answer>;
}
interface ConnectionClosed extends Error {
  /** The broker's address. */
  readonly broker: string;
}
interface BrokerMethods {
  isConnected: (this: Broker) => boolean;
  connect: (this: Broker) => Promise<void>;
  disconnect: (this: Broker) => Promise<void>;
  metadata: (this: Broker, topics?: readonly string[]) => Promise<unknown>;
  produce: (this: Broker, request: object) => Promise<unknown>;
  fetch: (this: Broker, request: object) => Promise<unknown>;
}

/** Limit from the first packet to the end of the authentication. */
const ANSWER_WITHIN_MS = 3_000;

/**
 * Changes how a broker is asked, for a cluster that is not fully healthy:
 *
 * - `connect` gives up after 3 s, and reports a first connection that is closed as one that failed. kafkajs waits forever for a
 *   frozen broker, and goes on to the next of the list only when a connection failed.
 * - `isConnected` is false until the broker has stated its API versions. For kafkajs, an open connection is enough.
 * - `disconnect` drops the request for them. kafkajs makes whoever ends wait for the answer.
 * - `metadata` gives -1 as the leader where there is none, or leaves such a partition out where no topic is named. kafkajs
 *   fails for all partitions when one has no leader.
 * - `produce` hands out the answer for each partition, and encodes in one pass. kafkajs fails the whole batch, and sends it
 *   again, when one partition takes nothing (too few replicas, no right to write, another leader). It still does when none is
 *   answered for.
 * - `fetch` puts a mark in place of batches whose checksum does not match. kafkajs compares none.
 *
 * Safe to call again.
 */
export function guardBroker(): void {
  const prototype = classToGuard("broker/index.js") as BrokerMethods | null;
  if (prototype === null) return;
  const { connect, disconnect, fetch, isConnected, metadata, produce } = prototype;
  prototype.connect = async function guardedConnect(this: Broker) {
    const isStranger = this.versions === null;
    const timer = setTimeout(() => {
      const late = Object.assign(new Error("the broker does not answer"), { code: "ETIMEDOUT" });
      for (const { socket } of this.connectionPool.pool) socket?.destroy(late);
    }, ANSWER_WITHIN_MS);
    try {
      await connect.call(this);
    } catch (error) {
      throw isStranger ? asNotConnected(error) : error;
    } finally {
      clearTimeout(timer);
    }
  };
  prototype.isConnected = function guardedIsConnected(this: Broker) {
    return this.versions !== null && isConnected.call(this);
  };
  prototype.disconnect = function guardedDisconnect(this: Broker) {
    // Whoever ends it waits for what is under way, even for a look-up of all metadata, but not for its API versions.
    if (this.versions === null)
      for (const { socket } of this.connectionPool.pool)
        socket?.destroy(new Error("ended before it said what it can do"));
    return disconnect.call(this);
  };
  prototype.metadata = function guardedMetadata(this: Broker, topics = []) {
    const told = topics.length > 0 ? withLeaderless : withoutFailures;
    const change = ({ request, response }: ProtocolRequest<ClusterMetadata>) => ({
      request,
      response: { ...response, parse: (data: ClusterMetadata) => response.parse(told(data)) },
    });
    return metadata.call(withProtocol(this, change), topics);
  };
  prototype.fetch = function guardedFetch(this: Broker, request) {
    const change = ({ request: asked, response }: ProtocolRequest<unknown>) => ({
      request: asked,
      response: {
        ...response,
        decode: (payload: Buffer) => {
          markDamagedBatches(payload, asked.apiVersion);
          return response.decode(payload);
        },
      },
    });
    return fetch.call(withProtocol(this, change), request);
  };
  const blocks = new ProduceBlocks();
  prototype.produce = async function guardedProduce(this: Broker, request) {
    const taken: Buffer[] = [];
    const takeBlock = (sizeBytes: number): Buffer => {
      const block = blocks.take(sizeBytes);
      taken.push(block);
      return block;
    };
    const change = (protocol: ProtocolRequest<ProduceAnswer>, asked: object) => ({
      request: encodedInOnePass(protocol.request, asked as ProduceRequest, takeBlock),
      response: answersHandedOut(protocol.response),
    });
    markHandedOver(request as ProduceRequest);
    const answer = await produce.call(withProtocol(this, change), request);
    noteAnswer(this, answer as ProduceAnswer);
    // Not after a failure: without an answer, the bytes may still be on their way.
    for (const block of taken) blocks.giveBack(block);
    return answer;
  };
}

function asNotConnected(error: unknown): unknown {
  const { name, message, broker } = error as ConnectionClosed;
  if (name !== "KafkaJSConnectionClosedError") return error;
  return new KafkaJSConnectionError(message, { broker });
}

/** Returns a view of the broker with its requests changed. */
function withProtocol<Answer>(
  broker: Broker,
  change: (protocol: ProtocolRequest<Answer>, asked: object) => ProtocolRequest<Answer>,
): Broker {
  const lookupRequest = (apiKey: number, versions: object) => (asked: object) =>
    change(broker.lookupRequest<Answer>(apiKey, versions)(asked), asked);
  return Object.assign(Object.create(broker) as Broker, { lookupRequest });
}

function answersHandedOut(response: Response<ProduceAnswer>): Response<ProduceAnswer> {
  const parse = async (data: ProduceAnswer) => (isNoAnswer(data) ? response.parse(data) : data);
  return { ...response, parse };
}

function withoutFailures(data: ClusterMetadata): ClusterMetadata {
  const topicMetadata = data.topicMetadata.map((topic) => ({
    ...topic,
    topicErrorCode: 0,
    partitionMetadata: topic.partitionMetadata.filter(
      ({ partitionErrorCode }) => partitionErrorCode === 0,
    ),
  }));
  return { ...data, topicMetadata };
}

/** Keeps a partition without a leader from failing the others. */
function withLeaderless(data: ClusterMetadata): ClusterMetadata {
  const topicMetadata = data.topicMetadata.map((topic) => ({
    ...topic,
    partitionMetadata: topic.partitionMetadata.map((partition) =>
      partition.leader < 0 ? Object.assign(partition, { partitionErrorCode: 0 }) : partition,
    ),
  }));
  return { ...data, topicMetadata };
}
