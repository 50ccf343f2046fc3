import { tlsAdvice } from "../../domain/tls-advice.ts";
import type { KafkaLogOptions } from "./kafka-options.ts";
import { isNotAuthorized } from "./missing-right.ts";

type Refused = Pick<KafkaLogOptions, "connection" | "topicPrefix">;

/** What the client says when a broker closes a connection: it does so without a word when it does not understand a request. */
const CLOSED = "Closed connection";
/** What a broker that wants no password at this port says when given one. */
const NO_SASL = /SASL state/;

/** Returns in one line why the brokers cannot be used, and what to look at where the client's own message does not say it. */
export function explainRefusal(refused: Refused, error: Error): string {
  const { brokers } = refused.connection;
  const why = [`Kafka at ${brokers.join(",")} cannot be used`, error.message];
  return [...why, ...tlsAdvice(error), ...advice(refused, error)].join(": ");
}

function advice({ connection, topicPrefix }: Refused, error: Error): readonly string[] {
  const { message } = error;
  if (message === CLOSED) return whatItMayAskFor(connection);
  if (NO_SASL.test(message)) return ["it may ask for no password at this port"];
  if (isNotAuthorized(error))
    return [
      `this user needs the rights Create, Describe, DescribeConfigs, Read and Write for topics, and Read for groups, that begin with ${topicPrefix}`,
    ];
  return [];
}

function whatItMayAskFor({ tls, sasl }: KafkaLogOptions["connection"]): readonly string[] {
  const missing = [
    ...(tls === undefined || tls === false ? ["TLS (KAFKA_SSL=true)"] : []),
    ...(sasl === undefined ? ["a password (KAFKA_SASL_MECHANISM)"] : []),
  ];
  return missing.length === 0 ? [] : [`it may ask for ${missing.join(" or ")} at this port`];
}
