import { createHash } from "node:crypto";
import { pause, TIMERS } from "../domain/clock.ts";
import type { Clock } from "../domain/clock.ts";
import { UsageError } from "../domain/errors.ts";
import type { Log } from "../domain/log.ts";
import type { Logger } from "../domain/logger.ts";
import { messageOf } from "../domain/thrown.ts";
import { within } from "../domain/within.ts";
import { decodeClaim } from "../pipeline/deliver/recovery/claim.ts";

const NAME_LENGTH = 16;
/** The process starts without an answer while the broker to ask is away. */
const ANSWERS_WITHIN_MS = 5_000;
/** A member that was killed counts as one until its session ends. */
const OTHERS_GO_WITHIN_MS = 30_000;
const ASK_EVERY_MS = 1_000;

interface OthersLogOptions {
  readonly topicPrefix: string;
  readonly logger: Logger;
  readonly clock: Clock;
}

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
 * record elsewhere, those of the other one's endpoints, which it does not know. Owners that are gone, and those that are about to
 * take over from them, are waited for. A log that cannot be asked, for want of the right to the group or since Kafka itself is new,
 * is taken.
 * @throws {UsageError}
 */
export async function refuseOthersLog(
  log: Pick<Log, "committedMetadata">,
  installation: string,
  { topicPrefix, logger, clock }: OthersLogOptions,
): Promise<void> {
  const giveUpAtMs = clock.monotonic() + OTHERS_GO_WITHIN_MS;
  while (await belongsToOthers(log, installation, logger)) {
    if (clock.monotonic() >= giveUpAtMs)
      throw new UsageError(
        `the topics that begin with ${topicPrefix} belong to a relay with another database, which runs: set RELAY_TOPIC_PREFIX to one that no other relay has, or stop every process of the other one`,
      );
    await pause(clock, ASK_EVERY_MS);
  }
}

async function belongsToOthers(
  log: Pick<Log, "committedMetadata">,
  installation: string,
  logger: Logger,
): Promise<boolean> {
  const asked = log.committedMetadata?.("delivery", "attempts") ?? Promise.resolve([]);
  const claims = await within(asked, ANSWERS_WITHIN_MS, refuseLate, TIMERS).catch(
    (error: unknown) => {
      logger.info({ err: messageOf(error) }, "log.owners_not_read");
      return [];
    },
  );
  const owners = claims.map((claim) => decodeClaim(claim).ownerId);
  // Older versions named no relay.
  return owners.some((owner) => owner.includes(":") && !owner.startsWith(`${installation}:`));
}

function refuseLate(): never {
  throw new Error(`no answer within ${ANSWERS_WITHIN_MS / 1_000} s`);
}
