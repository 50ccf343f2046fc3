import { LogError } from "../../domain/log.ts";

/** What brokers say to a user whose ACLs do not allow something: neither which right is missing, nor for what. */
const NOT_AUTHORIZED = /authorization failed/i;
const NOT_AUTHORIZED_FOR_GROUP = /group authorization failed/i;
/** What the client says when each broker refused to name the group's coordinator; it drops their reasons. */
const NO_COORDINATOR = "KafkaJSGroupCoordinatorNotFound";
/** What the client says of a compression that it cannot read; of which topic, it does not say. */
const UNREADABLE = "KafkaJSNotImplemented";

type Right = "Create" | "Alter" | "Read";

/** Returns whether brokers refused for want of a right. */
export function isNotAuthorized({ message }: Error): boolean {
  return NOT_AUTHORIZED.test(message);
}

/** Returns in words what the user is to be granted, as Kafka's ACLs call it. */
export function neededRight(right: Right, what: "topics" | "groups", prefix: string): string {
  return `this user needs the right ${right} for ${what} that begin with ${prefix}`;
}

/** Returns why a consumer broke, with the right that its user lacks or may lack, or the setting of a topic that is to be mended. */
export function explainBroken(topicPrefix: string, error: Error): Error {
  const told = (message: string) => new LogError("log_unavailable", message, { cause: error });
  const readGroups = neededRight("Read", "groups", topicPrefix);
  if (error.name === NO_COORDINATOR)
    return told(`no broker names the group's coordinator: they are away, or ${readGroups}`);
  const causes = [error.cause, error].filter((one) => one instanceof Error);
  if (causes.some(({ name }) => name === UNREADABLE))
    return told(
      `${error.message}: set compression.type of the topics that begin with ${topicPrefix} to producer; what the brokers have compressed until then cannot be read, nor anything behind it before kafka-delete-records.sh has removed it`,
    );
  if (causes.some(({ message }) => NOT_AUTHORIZED_FOR_GROUP.test(message))) return told(readGroups);
  if (causes.some(isNotAuthorized)) return told(neededRight("Read", "topics", topicPrefix));
  return error;
}
