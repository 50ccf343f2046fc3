import { partitionOf } from "../../src/domain/partition.ts";

/** Returns an endpoint with these homes by number of partitions: `{ 2: 0, 3: 1 }` moves when the log grows. */
export function endpointAt(homes: Readonly<Record<number, number>>): string {
  for (let index = 0; index < 4_000; index += 1) {
    const id = `ep_${index}`;
    if (Object.entries(homes).every(([count, home]) => partitionOf(id, Number(count)) === home))
      return id;
  }
  throw new Error(`no endpoint is at home in ${JSON.stringify(homes)}`);
}
