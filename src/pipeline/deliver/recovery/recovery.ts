import type { Attempt } from "../../../domain/attempt.ts";
import { DELAY_TIERS } from "../../../domain/delay-tier.ts";
import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import type { LogRecord, OwnedPartition, Topic } from "../../../domain/log.ts";
import type { OutcomeRecord } from "../../../domain/outcome.ts";
import { fanoutKey, runKey, runKeyOf } from "../../../domain/run-keys.ts";
import { decodeOutcome } from "../../log/outcome-codec.ts";
import { decodeTask } from "../../log/task-codec.ts";
import { decodeClaim } from "./claim.ts";
import type { Claim } from "./claim.ts";
import type { HeldIndex } from "../held/held-index.ts";
import { decodeHeld } from "../held/held-codec.ts";
import type { KnownLimits } from "../limits/known-limits.ts";
import { RECOVERY_TOPICS } from "../partition/log-positions.ts";
import type { LogPositions } from "../partition/log-positions.ts";
import { committedFloor } from "../partition/partition-positions.ts";
import type { DeliveryPorts } from "../ports.ts";
import { noteUnreadable } from "../note-unreadable.ts";
import { REMEMBERED_RUNS } from "./run-ledger.ts";
import type { RunLedger, Step } from "./run-ledger.ts";

/**
 * The fewest records of `attempts` that are read before the committed position. An append that had to be repeated leaves two
 * copies of a task, and the second may come out of a delay tier minutes after the first has ended: it is recognized by that
 * end. The fewer partitions the log has, the more of each is read, up to what one process remembers (`REMEMBERED_RUNS`) in
 * all.
 */
const MIN_MARGIN_RECORDS = 2_000;

export interface RecoveredPartition {
  readonly fanouts: Map<string, readonly string[]>;
  /** For runs whose fan-out was not seen before: the destinations for which a try has ended, by run. */
  readonly tried: Map<string, Set<string>>;
  /** The last owner's claim, if it did not release the partition: its tries may still be in flight. */
  unreleased: Claim | null;
}

/** A partition whose topics are read, and where it is noted how far. */
interface PartitionToRead {
  readonly partition: OwnedPartition;
  readonly positions: LogPositions;
  readonly ports: Pick<DeliveryPorts, "logger" | "metrics">;
}

/** A partition that was recovered, and that its last owner may still write to. */
export interface PartitionTakenOver extends PartitionToRead {
  readonly ledger: RunLedger;
  readonly recovered: RecoveredPartition;
}

interface PartitionToRecover extends PartitionToRead {
  readonly ledger: RunLedger;
  readonly held: HeldIndex;
  readonly limits: KnownLimits;
}

/** Reads what the last owner left, into `ledger`, `held`, `limits` and the result. */
export async function recoverPartition(input: PartitionToRecover): Promise<RecoveredPartition> {
  const { partition, positions, ledger, held, limits, ports } = input;
  const recovered: RecoveredPartition = {
    fanouts: new Map(),
    tried: new Map(),
    unreleased: null,
  };
  const committed = partition.committed("attempts");
  const lastClaim = committed === null ? null : decodeClaim(committed.metadata);
  let released = false;
  const margin = Math.max(MIN_MARGIN_RECORDS, Math.ceil(REMEMBERED_RUNS / partition.partitions));
  await readEach(input, "attempts", Math.max(0, (committed?.offset ?? 0) - margin), (record) => {
    const outcome = decodeOutcome(record.value);
    if (outcome.kind === "released" && outcome.ownerId === lastClaim?.ownerId) released = true;
    noteOutcome(outcome, ledger, recovered);
  });
  for (const { topic } of DELAY_TIERS)
    await readEach(input, topic, partition.committed(topic)?.offset ?? 0, (record) =>
      noteWaiting(decodeTask(record.value), ledger),
    );
  const heldFloor = committedFloor(partition, "held");
  // An offset that was set by hand has no floor with it: what it would pass over is still held.
  const heldFrom = Math.min(heldFloor, partition.committed("held")?.offset ?? 0);
  await readEach(input, "held", heldFrom, (record) => {
    const entry = decodeHeld(record.value);
    held.note(record.offset, entry);
    if (entry.kind === "task" && record.offset >= heldFloor) noteWaiting(entry.task, ledger);
  });
  await readEach(input, "limits", 0, (record) => limits.note(record));
  for (const topic of RECOVERY_TOPICS)
    positions.raise(topic, partition.committed(topic)?.offset ?? 0);
  recovered.unreleased = released ? null : lastClaim;
  // Most of a new relay's partitions are empty: logging each would bury what is printed for its first user.
  const isEmpty = ledger.size === 0 && held.size === 0;
  ports.logger[isEmpty ? "debug" : "info"](
    { partition: partition.partition, runs: ledger.size, held: held.size, clean: released },
    "delivery.recovered",
  );
  return recovered;
}

/** Reads what the last owner's tries in flight left while the new one waited. */
export async function recoverLateEnds(input: PartitionTakenOver): Promise<void> {
  for (const topic of RECOVERY_TOPICS)
    await readEach(input, topic, input.positions.floors().get(topic) ?? 0, (record) => {
      if (topic === "attempts")
        noteOutcome(decodeOutcome(record.value), input.ledger, input.recovered);
      else if (topic !== "held") noteWaiting(decodeTask(record.value), input.ledger);
    });
}

/** Reads ends from an offset on, whoever wrote them. @returns where to go on */
export async function readEnds(
  input: PartitionToRead,
  fromOffset: number,
  ledger: RunLedger,
): Promise<number> {
  let next = fromOffset;
  await readEach(input, "attempts", fromOffset, (record) => {
    next = record.offset + 1;
    const outcome = decodeOutcome(record.value);
    if (outcome.kind !== "attempt") return;
    const { attempt, followUp } = outcome;
    ledger.noteEarlierEnd(runKeyOfAttempt(attempt), stepOf(attempt), followUp);
  });
  return next;
}

function noteOutcome(
  outcome: OutcomeRecord,
  ledger: RunLedger,
  recovered: RecoveredPartition,
): void {
  switch (outcome.kind) {
    case "attempt": {
      const { eventId, destinationId, run } = outcome.attempt;
      ledger.noteEnd(runKeyOfAttempt(outcome.attempt), stepOf(outcome.attempt), outcome.followUp);
      const fanout = fanoutKey(eventId, run);
      if (!recovered.fanouts.has(fanout)) noteTried(recovered.tried, fanout, destinationId);
      return;
    }
    case "fanout":
      recovered.fanouts.set(fanoutKey(outcome.eventId, outcome.run), outcome.destinationIds);
      return;
    case "released":
      return;
    default:
      return outcome satisfies never;
  }
}

function noteWaiting(task: DeliveryTask, ledger: RunLedger): void {
  ledger.noteWaiting(runKeyOf(task), task);
}

function runKeyOfAttempt({ eventId, destinationId, run }: Attempt): string {
  return runKey(eventId, destinationId, run);
}

function stepOf({ tryNumber, deferral }: Attempt): Step {
  return { tryNumber, deferrals: deferral };
}

function noteTried(tried: Map<string, Set<string>>, key: string, destinationId: string): void {
  const known = tried.get(key);
  if (known === undefined) tried.set(key, new Set([destinationId]));
  else known.add(destinationId);
}

/**
 * Reads a topic from an offset on. A record that cannot be read is logged, counted and skipped: one foreign record must not stop
 * a partition.
 */
async function readEach(
  input: PartitionToRead,
  topic: Topic,
  fromOffset: number,
  take: (record: LogRecord) => void,
): Promise<void> {
  for await (const records of input.partition.read(topic, fromOffset))
    for (const record of records) {
      input.positions.raise(topic, record.offset + 1);
      try {
        take(record);
      } catch (error) {
        noteUnreadable(input.ports, record, error);
      }
    }
}
