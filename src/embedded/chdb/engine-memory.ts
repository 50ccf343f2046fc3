import { totalmem } from "node:os";

/** The engine's share of the machine. */
const SHARE = 0.4;
/** Inserts and searches of large events need this much, where the machine has it for all of the relay. */
const ENOUGH_BYTES = 1_500_000_000;

/**
 * Returns the memory that the engine may take: beyond it a statement fails. In a container that is at most half of what the
 * container has, or the system would end a process of the relay instead.
 * @param containerBytes 0 when unknown; where there is no limit, a number beyond the machine's
 */
export function engineMemoryBytes(
  machineBytes = totalmem(),
  containerBytes = process.constrainedMemory(),
): number {
  const isLimited = containerBytes > 0 && containerBytes < machineBytes;
  if (!isLimited) return Math.max(ENOUGH_BYTES, Math.floor(machineBytes * SHARE));
  return Math.max(
    Math.min(ENOUGH_BYTES, Math.floor(containerBytes / 2)),
    Math.floor(containerBytes * SHARE),
  );
}
