import { partitionOf } from "../../src/domain/partition.ts";

/** An endpoint that is at home there, by how many partitions the log has: `{ 2: 0, 3: 1 }` moves when it grows. */
export function endpointAt(homes: Readonly<Record<number, number>>): string {
  for (let index = 0; index < 4_000; index += 1) {
    const id = `ep_${index}`;
    if (Object.entries(homes).every(([count, home]) => partitionOf(id, Number(count)) === home))
      return id;
  }
  throw new Error(`no endpoint is at home in ${JSON.stringify(homes)}`);
}
