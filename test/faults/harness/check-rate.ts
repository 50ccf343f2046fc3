import type { ReceivedRequest } from "./ledgers.ts";

/**
 * Finds sliding windows that certainly hold more than `max` requests: each is measured from the earliest moment at which
 * its first request can have come (a receiver that stalled sees requests late and close together).
 */
export function findRateBreaches(
  requests: readonly Pick<ReceivedRequest, "notBeforeMs" | "arrivedMs">[],
  { max, windowMs }: { readonly max: number; readonly windowMs: number },
): readonly string[] {
  const inOrder = requests.toSorted((a, b) => a.arrivedMs - b.arrivedMs);
  const breaches: string[] = [];
  for (let index = 0; index + max < inOrder.length; index += 1) {
    const first = inOrder[index];
    const last = inOrder[index + max];
    if (first === undefined || last === undefined) break;
    const spanMs = last.arrivedMs - first.notBeforeMs;
    if (spanMs < windowMs)
      breaches.push(
        `${max + 1} requests within ${Math.round(spanMs)} ms, from ${new Date(first.arrivedMs).toISOString()}`,
      );
  }
  return breaches;
}
