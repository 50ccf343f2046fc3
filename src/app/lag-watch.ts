import { TIMERS } from "../domain/clock.ts";
import { within } from "../domain/within.ts";

type ReadLag = () => Promise<ReadonlyMap<string, number>>;

/** A scrape must not wait for brokers that hang: Prometheus gives up after ten seconds, and then has no metric at all. */
const READ_WITHIN_MS = 3_000;

/** Collects the lag of every consumer group of this process for `/metrics`. One that does not answer in time is left out. */
export function makeLagWatch(withinMs = READ_WITHIN_MS): {
  readonly watch: (group: string, lag: ReadLag) => void;
  readonly read: () => Promise<
    readonly { readonly group: string; readonly topic: string; readonly records: number }[]
  >;
} {
  const groups = new Map<string, ReadLag>();
  return {
    watch: (group, lag) => void groups.set(group, lag),
    read: async () => {
      const readings = await Promise.all(
        [...groups].map(async ([group, lag]) => {
          try {
            return [...(await within(lag(), withinMs, refuse, TIMERS))].map(([topic, records]) => ({
              group,
              topic,
              records,
            }));
          } catch {
            return [];
          }
        }),
      );
      return readings.flat();
    },
  };
}

function refuse(): never {
  throw new Error("the lag was not read in time");
}
