import { expect, test } from "vitest";
import { installationOf, makeOwnerId, refuseOthersLog } from "../../src/app/installation.ts";
import type { Clock } from "../../src/domain/clock.ts";
import { encodeClaim } from "../../src/pipeline/deliver/recovery/claim.ts";
import { systemClock } from "../support/log-fakes.ts";
import { makeSilentLogger } from "../support/silent-logger.ts";

const [OURS, OTHERS] = [1, 2].map((byte) => installationOf(new Uint8Array(32).fill(byte))) as [
  string,
  string,
];

function claimOf(installation: string | null): string {
  const ownerId = `${makeOwnerId(installation, "6d1c")}/1`;
  return encodeClaim({ ownerId, waitsUntilMs: 1, counts: [], incompleteUntilMs: null });
}

/** A clock on which a pause takes no time. @returns how often the log was asked */
async function start(
  committedMetadata: (asked: number) => Promise<readonly string[]>,
  told: string[] = [],
): Promise<number> {
  let asked = 0;
  let nowMs = 0;
  const clock: Clock = {
    ...systemClock,
    monotonic: () => nowMs,
    schedule: (delayMs, callback) => {
      nowMs += delayMs;
      callback();
      return () => {};
    },
  };
  const logger = makeSilentLogger((_level, message) => told.push(message));
  const log = { committedMetadata: () => committedMetadata(++asked) };
  await refuseOthersLog(log, OURS, { topicPrefix: "relay.", logger, clock });
  return asked;
}

test("a log is refused where a partition is owned by the relay of another database, and stays so", async () => {
  await expect(start(async () => [claimOf(OURS), claimOf(OTHERS)])).rejects.toThrow(
    /^the topics that begin with relay\. belong to a relay with another database, which runs: set RELAY_TOPIC_PREFIX to one that no other relay has/,
  );
});

test("a log whose owners of another database go, or are followed by those of this one, is waited for", async () => {
  const goes = async (asked: number) => (asked < 20 ? [claimOf(OTHERS)] : []);
  expect(await start(goes)).toBe(20);
  const follows = async (asked: number) => [claimOf(asked < 3 ? OTHERS : OURS), claimOf(OURS)];
  expect(await start(follows)).toBe(3);
});

test("a log is taken that this relay has owned, an older version or nobody, or that cannot be asked", async () => {
  await start(async () => [claimOf(OURS), claimOf(null), "of an older version/1", ""]);
  await start(async () => []);
  const logger = makeSilentLogger();
  await refuseOthersLog({}, OURS, { topicPrefix: "", logger, clock: systemClock });
  const told: string[] = [];
  await start(() => Promise.reject(new Error("Group authorization failed")), told);
  expect(told).toEqual(["log.owners_not_read"]);
});
