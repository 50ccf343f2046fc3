import { createHash } from "node:crypto";
import { TIMERS } from "../domain/clock.ts";
import { UsageError } from "../domain/errors.ts";
import type { Log } from "../domain/log.ts";
import type { Logger } from "../domain/logger.ts";
import { messageOf } from "../domain/thrown.ts";
import { within } from "../domain/within.ts";
import { decodeClaim } from "../pipeline/deliver/recovery/claim.ts";

const NAME_LENGTH = 16;
/** The process starts without an answer while the broker to ask is away. */
const ANSWERS_WITHIN_MS = 5_000;

/** Returns the name of the relay that has this database, the same in all its processes: made of a secret that never changes. */
export function installationOf(tokenKey: Uint8Array): string {
  const digest = createHash("sha256").update("installation").update(tokenKey);
  return digest.digest("hex").slice(0, NAME_LENGTH);
}

/** Returns the start of the name by which an owner of partitions is known in the log; null while the database was not read. */
export function makeOwnerId(installation: string | null, id: string): string {
  return installation === null ? id : `${installation}:${id}`;
}

/**
 * Refuses a log whose partitions belong to the relay of another database: the two would share out the records, and each drop, and
 * record elsewhere, those of the other one's endpoints, which it does not know. A log that cannot be asked, for want of the right to
 * the group or since Kafka itself is new, is taken.
 * @throws {UsageError}
 */
export async function refuseOthersLog(
  log: Pick<Log, "committedMetadata">,
  installation: string,
  { topicPrefix, logger }: { readonly topicPrefix: string; readonly logger: Logger },
): Promise<void> {
  const asked = log.committedMetadata?.("delivery", "attempts") ?? Promise.resolve([]);
  const claims = await within(asked, ANSWERS_WITHIN_MS, refuseLate, TIMERS).catch(
    (error: unknown) => {
      logger.info({ err: messageOf(error) }, "log.owners_not_read");
      return [];
    },
  );
  const owners = claims.map((claim) => decodeClaim(claim).ownerId);
  // Older versions named no relay.
  const isOthers = (owner: string) => owner.includes(":") && !owner.startsWith(`${installation}:`);
  if (!owners.some(isOthers)) return;
  throw new UsageError(
    `the topics that begin with ${topicPrefix} belong to a relay with another database: set RELAY_TOPIC_PREFIX to one that no other relay has (if DATABASE_URL has taken that one's place: stop every process, and delete the group ${topicPrefix}delivery with kafka-consumer-groups.sh)`,
  );
}

function refuseLate(): never {
  throw new Error(`no answer within ${ANSWERS_WITHIN_MS / 1_000} s`);
}
