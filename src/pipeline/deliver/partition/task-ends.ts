import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import type { NewRecord } from "../../../domain/log.ts";
import { followedBy } from "../../../domain/outcome.ts";
import { runKeyOf } from "../../../domain/run-keys.ts";
import { inOrder } from "../../log/in-order.ts";
import type { SharedDelivery } from "../shared-delivery.ts";
import type { Conclusion } from "../try/conclude.ts";
import type { LiveTries } from "./live-tries.ts";
import { endRecord, taskRecord } from "./partition-records.ts";
import { writeOwned } from "./partition-writer.ts";
import type { Ownership, WriteRecords } from "./partition-writer.ts";

/** Completes the tasks of one partition: each once its end, the task that follows it, or both are durable. */
export class TaskEnds {
  readonly #shared: SharedDelivery;
  readonly #live: LiveTries;
  readonly #write: WriteRecords;
  readonly #ownership: Ownership;

  constructor(shared: SharedDelivery, live: LiveTries, write: WriteRecords, ownership: Ownership) {
    this.#shared = shared;
    this.#live = live;
    this.#write = write;
    this.#ownership = ownership;
  }

  /** Ends the task and returns true if its run has ended elsewhere. */
  endIfOver(task: DeliveryTask): boolean {
    if (this.#shared.recent.judge(runKeyOf(task), task).kind !== "superseded") return false;
    this.#shared.ports.metrics.droppedDuplicate();
    this.#live.end(task);
    return true;
  }

  async conclude(task: DeliveryTask, end: Conclusion): Promise<void> {
    const { attempt, followUp, tookMs } = end;
    const isDone =
      followUp === null
        ? await this.#complete(task, null, end)
        : await this.#goOn(task, followedBy(task, followUp), end);
    if (!isDone) return;
    const { metrics, logger } = this.#shared.ports;
    metrics.attempted(attempt.status, tookMs === null ? null : tookMs / 1000);
    const { eventId, destinationId, tryNumber, status, httpStatus, latencyMs } = attempt;
    const line = { eventId, destinationId, tryNumber, status, httpStatus, latencyMs };
    logger.debug(line, "delivery.attempted");
  }

  /** Puts the task off: `next` takes its place, and nothing else is recorded. */
  async goOnAs(task: DeliveryTask, next: DeliveryTask): Promise<void> {
    await this.copied(next, () => this.#complete(task, next, null));
  }

  /** Runs `write`, which encodes the task, when there is room for a copy of its body. */
  copied<T>(task: DeliveryTask, write: () => Promise<T>): Promise<T> {
    const { partition } = this.#ownership.partition;
    return this.#shared.copies.run(partition, task.event.body, write);
  }

  #goOn(task: DeliveryTask, next: DeliveryTask, end: Conclusion): Promise<boolean> {
    return this.copied(next, async () => {
      // If the run has ended elsewhere, a row saying that it goes on would replace the row of that end.
      if (this.endIfOver(task)) return false;
      return this.#complete(task, next, end);
    });
  }

  /** Resolves with false if the records are not durable. Nobody waits for those of a deferral. */
  async #complete(
    task: DeliveryTask,
    next: DeliveryTask | null,
    end: Conclusion | null,
  ): Promise<boolean> {
    const { partition, clock } = this.#ownership;
    const write = this.#write;
    const urgency = end === null || end.attempt.status === "rate_limited" ? "soon" : "now";
    const records: NewRecord[] = end === null ? [] : [endRecord(partition, end)];
    if (next !== null) records.push(taskRecord(partition, next, clock.now()));
    for (const part of inOrder(
      this.#shared.ports.log,
      records.map((record) => [record]),
    )) {
      const written =
        next === null ? write(part) : writeOwned(write, this.#ownership, part, urgency);
      if ((await written) === null) return false;
    }
    const key = runKeyOf(task);
    if (end !== null) this.#shared.recent.noteEnd(key, task, end.followUp);
    if (next !== null) this.#shared.recent.noteWaiting(key, next);
    this.#live.end(task);
    return true;
  }
}
