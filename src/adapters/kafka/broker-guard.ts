import type { Socket } from "node:net";
import { classToGuard } from "./guard-class.ts";

interface ClusterMetadata {
  readonly topicMetadata: readonly {
    readonly topicErrorCode: number;
    readonly partitionMetadata: readonly { readonly partitionErrorCode: number }[];
  }[];
}
interface ProtocolRequest {
  readonly request: object;
  readonly response: { readonly parse: (data: ClusterMetadata) => Promise<unknown> };
}
interface Broker {
  readonly connectionPool: { readonly pool: readonly { readonly socket?: Socket | null }[] };
  lookupRequest: (apiKey: number, versions: object) => (request: object) => ProtocolRequest;
}
interface BrokerMethods {
  connect: (this: Broker) => Promise<void>;
  metadata: (this: Broker, topics?: readonly string[]) => Promise<unknown>;
}

/** From the first packet to the end of the authentication. */
const ANSWER_WITHIN_MS = 3_000;

/**
 * Two things that keep kafkajs from starting on a cluster that is not all well. It begins with the first broker of the list and
 * goes on to the next one only when a connection fails: one that is frozen takes connections and answers nothing, so it would be
 * asked for ever. And what it asks of the whole cluster fails when one partition of any topic, anybody's, has no leader.
 * This ends a connection that is not answered, as one that failed, and passes over such partitions where no topic is named.
 * Safe to call again.
 */
export function guardBroker(): void {
  const prototype = classToGuard("broker/index.js") as BrokerMethods | null;
  if (prototype === null) return;
  const { connect, metadata } = prototype;
  prototype.connect = async function guardedConnect(this: Broker) {
    const timer = setTimeout(() => {
      const late = Object.assign(new Error("the broker does not answer"), { code: "ETIMEDOUT" });
      for (const { socket } of this.connectionPool.pool) socket?.destroy(late);
    }, ANSWER_WITHIN_MS);
    try {
      await connect.call(this);
    } finally {
      clearTimeout(timer);
    }
  };
  prototype.metadata = function guardedMetadata(this: Broker, topics = []) {
    return metadata.call(topics.length > 0 ? this : passingOverFailures(this), topics);
  };
}

function passingOverFailures(broker: Broker): Broker {
  const lookupRequest: Broker["lookupRequest"] = (apiKey, versions) => (asked) => {
    const { request, response } = broker.lookupRequest(apiKey, versions)(asked);
    return {
      request,
      response: { ...response, parse: (data) => response.parse(withoutFailures(data)) },
    };
  };
  return Object.assign(Object.create(broker) as Broker, { lookupRequest });
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
