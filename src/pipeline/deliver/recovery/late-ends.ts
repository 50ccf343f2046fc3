import { pause } from "../../../domain/clock.ts";
import { isOwnershipOver, type OwnedPartition } from "../../../domain/log.ts";
import type { LogPositions } from "../partition/log-positions.ts";
import type { SharedDelivery } from "../shared-delivery.ts";
import { readEnds, recoverLateEnds } from "./recovery.ts";
import type { PartitionTakenOver } from "./recovery.ts";

/** How long to watch: an owner that lives on repeats its appends while brokers are away, even after the next one has begun. */
export const LATE_ENDS_FOR_MS = 120_000;
const LATE_ENDS_EVERY_MS = 2_000;
const READ_RETRY_MS = 500;

/** Reads what the last owner's tries in flight left while this one waited, until that succeeds or ownership ends. */
export async function readLateEnds(
  ports: SharedDelivery["ports"],
  takenOver: Omit<PartitionTakenOver, "ports">,
  ended: AbortSignal,
): Promise<void> {
  while (!ended.aborted)
    try {
      return await recoverLateEnds({ ...takenOver, ports });
    } catch (error) {
      ports.logger.warn({ err: error }, "delivery.recovery_retried");
      await pause(ports.clock, READ_RETRY_MS, ended);
    }
}

/**
 * Watches for ends that the last owner still writes, so that their tries are not made again where they still wait: in a delay
 * tier, or in a lane.
 */
export async function watchLateEnds(
  { ports, recent }: SharedDelivery,
  partition: OwnedPartition,
  positions: LogPositions,
  ended: AbortSignal,
): Promise<void> {
  const { clock } = ports;
  const untilMs = clock.monotonic() + LATE_ENDS_FOR_MS;
  let next = positions.floors().get("attempts") ?? 0;
  while (clock.monotonic() < untilMs) {
    await pause(clock, LATE_ENDS_EVERY_MS, ended);
    if (ended.aborted) return;
    try {
      next = await readEnds({ partition, positions, ports }, next, recent);
    } catch (error) {
      // A consumer whose brokers went away hears of that by reading, before it is told.
      if (isOwnershipOver(error)) return;
      ports.logger.warn({ err: error }, "delivery.late_ends_not_read");
    }
  }
}
