import { vi } from "vitest";
import type { DeliveryTask } from "../../src/domain/delivery-task.ts";
import { PartitionLanes } from "../../src/pipeline/deliver/partition/partition-lanes.ts";

/** Calls `look` with each task before it is routed to its lane, which it is not if that throws; the returned function ends it. */
export function beforeRouting(look: (task: DeliveryTask) => void): () => void {
  const { route } = PartitionLanes.prototype;
  const spy = vi.spyOn(PartitionLanes.prototype, "route").mockImplementation(function lookFirst(
    this: PartitionLanes,
    task,
  ) {
    look(task);
    return route.call(this, task);
  });
  return () => spy.mockRestore();
}
