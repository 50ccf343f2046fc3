import { expect, test } from "vitest";
import { installationOf, makeOwnerId, refuseOthersLog } from "../../src/app/installation.ts";
import { encodeClaim } from "../../src/pipeline/deliver/recovery/claim.ts";
import { makeSilentLogger } from "../support/silent-logger.ts";

const [OURS, OTHERS] = [1, 2].map((byte) => installationOf(new Uint8Array(32).fill(byte))) as [
  string,
  string,
];

function claimOf(installation: string | null): string {
  const ownerId = `${makeOwnerId(installation, "6d1c")}/1`;
  return encodeClaim({ ownerId, waitsUntilMs: 1, counts: [], incompleteUntilMs: null });
}

function start(claims: Promise<readonly string[]>, told: string[] = []): Promise<void> {
  return refuseOthersLog({ committedMetadata: () => claims }, OURS, {
    topicPrefix: "relay.",
    logger: makeSilentLogger((_level, message) => told.push(message)),
  });
}

test("a log is refused where a partition was last owned by the relay of another database", async () => {
  await expect(start(Promise.resolve([claimOf(OURS), claimOf(OTHERS)]))).rejects.toThrow(
    /^the topics that begin with relay\. belong to a relay with another database: set RELAY_TOPIC_PREFIX to .*delete the group relay\.delivery with/,
  );
});

test("a log is taken that this relay has owned, an older version or nobody, or that cannot be asked", async () => {
  await start(Promise.resolve([claimOf(OURS), claimOf(null), "of an older version/1", ""]));
  await start(Promise.resolve([]));
  await refuseOthersLog({}, OURS, { topicPrefix: "", logger: makeSilentLogger() });
  const told: string[] = [];
  await start(Promise.reject(new Error("Group authorization failed")), told);
  expect(told).toEqual(["log.owners_not_read"]);
});
