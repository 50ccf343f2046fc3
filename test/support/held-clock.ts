import type { Clock } from "../../src/domain/clock.ts";
import { systemClock } from "./log-fakes.ts";
import { until } from "./wait-for.ts";

/** A clock of which nothing becomes due before a test says so. */
export function heldClock() {
  const waiting: { readonly delayMs: number; readonly callback: () => void }[] = [];
  const clock: Clock = {
    ...systemClock,
    schedule: (delayMs, callback) => {
      const one = { delayMs, callback };
      waiting.push(one);
      return () => {
        if (waiting.includes(one)) waiting.splice(waiting.indexOf(one), 1);
      };
    },
  };
  /** Makes due the first that is scheduled with a delay that is meant, once there is one. */
  const due = async (isMeant: (delayMs: number) => boolean): Promise<void> => {
    await until(() => waiting.some(({ delayMs }) => isMeant(delayMs)), "something scheduled");
    const [one] = waiting.splice(
      waiting.findIndex(({ delayMs }) => isMeant(delayMs)),
      1,
    );
    one!.callback();
  };
  return { clock, due, delaysMs: () => waiting.map(({ delayMs }) => delayMs) };
}
