import { chunksOf } from "../domain/chunks.ts";
import type { AuditEntry } from "../domain/config-store.ts";
import { firstTryOfReplay } from "../domain/delivery-task.ts";
import { RelayError } from "../domain/errors.ts";
import type { EventRecord } from "../domain/event.ts";
import { ID_PREFIXES } from "../domain/ids.ts";
import { LogError, type NewRecord } from "../domain/log.ts";
import { fanoutOf } from "../domain/outcome.ts";
import { Rounds } from "../domain/rounds.ts";
import { inOrder } from "../pipeline/log/in-order.ts";
import { encodeOutcome } from "../pipeline/log/outcome-codec.ts";
import { encodeTask } from "../pipeline/log/task-codec.ts";
import { auditEntry } from "./audit.ts";
import type { Actor, Management } from "./management.ts";
import { found } from "./not-found.ts";
import type { ManagementPorts } from "./ports.ts";

type ReplayPorts = Pick<ManagementPorts, "store" | "log" | "events" | "now" | "newId">;

/** Each task carries the event, so appending many large ones is split into parts of about this size. */
const MAX_APPEND_BYTES = 16 * 1024 * 1024;

interface Part {
  readonly run: string;
  readonly destinationIds: readonly string[];
}

export function makeReplays({
  store,
  log,
  events,
  now,
  newId,
}: ReplayPorts): Management["replays"] {
  // Replays come many at a time, as those of `relay replay` do, and a statement for many takes little longer than for one.
  const audits = new Rounds<AuditEntry, void>(async (_orgId, entries) => {
    await store.audit(entries);
    return entries.map(() => undefined);
  });

  async function findEvent(actor: Actor, eventId: string): Promise<EventRecord> {
    return found(await events.event(actor.orgId, eventId), "event");
  }

  /**
   * Enqueues one run of the event at these destinations, or several when the tasks are too large for one append: the
   * tasks of an append and the fan-out that reports them become durable together, and a run has one fan-out.
   *
   * The audit row comes first, so that nothing is replayed without one, and a store that takes no writes (a standby, a full
   * disk) refuses the request before anything is enqueued; what the log then does not take has a second row. No transaction
   * is open while the log takes the tasks: a slow or unreachable one would keep connections, and the embedded store with its
   * one session, from everybody else.
   */
  async function enqueue(
    actor: Actor,
    event: EventRecord,
    destinationIds: readonly string[],
  ): Promise<void> {
    const atMs = now();
    const parts = partsOf(event, destinationIds, () =>
      newId("event", atMs).slice(ID_PREFIXES.event.length),
    );
    await audit(actor, "event.replay", event, parts);
    for (const [index, part] of parts.entries())
      try {
        for (const records of inOrder(log, stepsOf(event, part, atMs))) await append(records);
      } catch (error) {
        // Without it the first row still tells what may have been enqueued.
        await audit(actor, "event.replay_failed", event, parts.slice(index)).catch(() => undefined);
        throw error;
      }
  }

  function audit(
    actor: Actor,
    action: "event.replay" | "event.replay_failed",
    event: EventRecord,
    parts: readonly Part[],
  ): Promise<void> {
    const detail = {
      destinationIds: parts.flatMap((part) => part.destinationIds),
      runs: parts.map(({ run }) => run),
    };
    return audits.ask(actor.orgId, auditEntry(actor, action, event.id, now(), detail));
  }

  async function append(records: readonly NewRecord[]): Promise<void> {
    try {
      await log.append(records);
    } catch (error) {
      if (error instanceof LogError)
        throw new RelayError("unavailable", "The log cannot take the replay now; try again.", {
          cause: error,
        });
      throw error;
    }
  }

  return {
    async toAll(actor, eventId) {
      const event = await findEvent(actor, eventId);
      checkPayload(event);
      const destinations = await store.destinations.children(actor.orgId, event.endpointId);
      const enqueued = destinations.filter(({ status }) => status === "active").map(({ id }) => id);
      if (enqueued.length > 0) await enqueue(actor, event, enqueued);
      return { eventId, enqueued };
    },
    async toOne(actor, eventId, destinationId) {
      const event = await findEvent(actor, eventId);
      const row = await store.destinations.find(actor.orgId, destinationId);
      // What does not exist is told first: 404, whatever the event is.
      found(row?.endpointId === event.endpointId ? row : null, "destination");
      checkPayload(event);
      await enqueue(actor, event, [destinationId]);
      return { eventId, destinationId };
    },
  };
}

/** @throws {RelayError} `payload_not_stored` */
function checkPayload(event: EventRecord): void {
  if (!event.bodyStored)
    throw new RelayError(
      "payload_not_stored",
      "The payload of this event was refused and not stored, so it cannot be replayed",
    );
}

/** Divides the destinations so that the tasks of each part, which carry the event, fit into one append. */
function partsOf(
  event: EventRecord,
  destinationIds: readonly string[],
  newRun: () => string,
): readonly Part[] {
  const perAppend = Math.max(1, Math.floor(MAX_APPEND_BYTES / taskBytesOf(event)));
  return chunksOf(destinationIds, perAppend).map((part) => ({
    run: newRun(),
    destinationIds: part,
  }));
}

/** Returns about as many bytes as a task with this event has. */
function taskBytesOf({ body, headers, path, query }: EventRecord): number {
  const headerBytes = headers.reduce((sum, [name, value]) => sum + name.length + value.length, 0);
  return body.byteLength + headerBytes + path.length + query.length + 1_024;
}

/**
 * Returns the first tries of a run and then the fan-out that reports them, to become durable in this order: a
 * destination counts once it was tried, but one known only from the fan-out would be waited for forever.
 */
function stepsOf(
  event: EventRecord,
  { run, destinationIds }: Part,
  atMs: number,
): readonly (readonly NewRecord[])[] {
  const key = event.endpointId;
  const fanout = encodeOutcome(fanoutOf(event, { run, destinationIds, atMs }));
  const tasks = destinationIds.map((destinationId): NewRecord => {
    const task = firstTryOfReplay(event, destinationId, run, atMs);
    return { topic: "tasks", key, value: encodeTask(task) };
  });
  return [tasks, [{ topic: "attempts", key, value: fanout }]];
}
