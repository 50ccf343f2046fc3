import { LogError } from "../../../domain/log.ts";
import { isNotAuthorized, neededRight } from "../missing-right.ts";

const NOT_AUTHORIZED_FOR_GROUP = /group authorization failed/i;
/** What the client says when each broker refused to name the group's coordinator; it drops their reasons. */
const NO_COORDINATOR = "KafkaJSGroupCoordinatorNotFound";
/** What the client says of a compression that it cannot read; of which topic, it does not say. */
const UNREADABLE = "KafkaJSNotImplemented";

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
