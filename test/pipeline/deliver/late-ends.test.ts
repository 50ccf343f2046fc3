import { expect, it } from "vitest";
import { LogError, type LogRecord, type OwnedPartition } from "../../../src/domain/log.ts";
import { LogPositions } from "../../../src/pipeline/deliver/partition/log-positions.ts";
import { watchLateEnds } from "../../../src/pipeline/deliver/recovery/late-ends.ts";
import { RunLedger } from "../../../src/pipeline/deliver/recovery/run-ledger.ts";
import type { SharedDelivery } from "../../../src/pipeline/deliver/shared-delivery.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";
import { SimClock } from "../../support/sim-clock.ts";

/** Watches for half a minute with a log whose reads fail. @returns what was logged, and how often the log was read */
async function watchFailing(error: LogError): Promise<{ lines: string[]; reads: number }> {
  const clock = new SimClock();
  const lines: string[] = [];
  const logger = makeSilentLogger((level, message) => lines.push(`${level} ${message}`));
  const shared = { ports: { clock, logger }, recent: new RunLedger(1) };
  let reads = 0;
  const partition: Partial<OwnedPartition> = {
    // oxlint-disable-next-line require-yield -- it fails before the first batch
    async *read(): AsyncGenerator<readonly LogRecord[]> {
      reads += 1;
      throw error;
    },
  };
  const ended = new AbortController();
  void watchLateEnds(
    shared as unknown as SharedDelivery,
    partition as OwnedPartition,
    new LogPositions(),
    ended.signal,
  );
  await clock.advance(30_000);
  ended.abort();
  return { lines, reads };
}

it("regression: a partition that was lost while late ends were watched for ended in a warning: its next owner watches", async () => {
  const lost = new LogError("log_closed", "the partition is another owner's");
  expect(await watchFailing(lost)).toEqual({ lines: [], reads: 1 });
});

it("a log that cannot be read is told, and read again", async () => {
  const away = new LogError("log_unavailable", "the log could not be read");
  const { lines, reads } = await watchFailing(away);
  expect(reads).toBeGreaterThan(1);
  expect(lines).toEqual(Array.from({ length: reads }, () => "warn delivery.late_ends_not_read"));
});
