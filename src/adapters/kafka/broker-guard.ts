import type { Socket } from "node:net";
import { classToGuard } from "./guard-class.ts";
import { KafkaJSConnectionError } from "./kafkajs.ts";
import { markHandedOver } from "./handed-over.ts";
import { isAnswerForEach, type ProduceAnswer } from "./produce-answers.ts";
import { encodedInOnePass, ProduceBlocks, type ProduceRequest } from "./produce-encoder.ts";

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
  readonly parse: (data: Answer) => Promise<unknown>;
}
interface ProtocolRequest<Answer> {
  readonly request: { readonly apiVersion: number };
  readonly response: Response<Answer>;
}
interface Broker {
  readonly connectionPool: { readonly pool: readonly { readonly socket?: Socket | null }[] };
  /** What it can do; null before it was asked, as a seed of the list. */
  readonly versions: object | null;
  lookupRequest: <Answer>(
    apiKey: number,
    versions: object,
  ) => (asked: object) => ProtocolRequest<Answer>;
}
interface ConnectionClosed extends Error {
  /** Its address. */
  readonly broker: string;
}
interface BrokerMethods {
  isConnected: (this: Broker) => boolean;
  connect: (this: Broker) => Promise<void>;
  disconnect: (this: Broker) => Promise<void>;
  metadata: (this: Broker, topics?: readonly string[]) => Promise<unknown>;
  produce: (this: Broker, request: object) => Promise<unknown>;
}

/** From the first packet to the end of the authentication. */
const ANSWER_WITHIN_MS = 3_000;

/**
 * Three things that kafkajs cannot do on a cluster that is not all well. It begins with the first broker of the list and
 * goes on to the next one only when a connection fails: one that is frozen takes connections and answers nothing, a proxy with
 * nothing behind it closes them when it is asked, so they would be asked for ever. What it asks of topics fails when one
 * partition of any of them has no leader, and what it asks of the whole cluster when one of anybody's has none. And a batch
 * fails as a whole, and is sent again as a whole, when one partition takes nothing: for too few replicas, or by its rights.
 * This takes one of which it is not known what it can do for one that is not connected, and one that does not answer that, or
 * closes, for one that does not connect, gives such a partition as one whose leader
 * is -1, or leaves it out where no topic is named, and hands out what was answered for each partition. What is produced is
 * also encoded in one pass. Safe to call again.
 */
export function guardBroker(): void {
  const prototype = classToGuard("broker/index.js") as BrokerMethods | null;
  if (prototype === null) return;
  const { connect, disconnect, isConnected, metadata, produce } = prototype;
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
    // Whoever ends it waits for what is under way, the look-up of all metadata too: not for this question.
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
      response: answerForEach(protocol.response),
    });
    markHandedOver(request as ProduceRequest);
    const answer = await produce.call(withProtocol(this, change), request);
    // Without an answer its bytes may still be on their way.
    for (const block of taken) blocks.giveBack(block);
    return answer;
  };
}

function asNotConnected(error: unknown): unknown {
  const { name, message, broker } = error as ConnectionClosed;
  if (name !== "KafkaJSConnectionClosedError") return error;
  return new KafkaJSConnectionError(message, { broker });
}

/** The broker, of which this is asked in another way. */
function withProtocol<Answer>(
  broker: Broker,
  change: (protocol: ProtocolRequest<Answer>, asked: object) => ProtocolRequest<Answer>,
): Broker {
  const lookupRequest = (apiKey: number, versions: object) => (asked: object) =>
    change(broker.lookupRequest<Answer>(apiKey, versions)(asked), asked);
  return Object.assign(Object.create(broker) as Broker, { lookupRequest });
}

function answerForEach(response: Response<ProduceAnswer>): Response<ProduceAnswer> {
  const parse = async (data: ProduceAnswer) =>
    isAnswerForEach(data) ? data : response.parse(data);
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

/** That it has no leader is no failure of the others. */
function withLeaderless(data: ClusterMetadata): ClusterMetadata {
  const topicMetadata = data.topicMetadata.map((topic) => ({
    ...topic,
    partitionMetadata: topic.partitionMetadata.map((partition) =>
      partition.leader < 0 ? Object.assign(partition, { partitionErrorCode: 0 }) : partition,
    ),
  }));
  return { ...data, topicMetadata };
}
