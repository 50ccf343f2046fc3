import type { ReceivedRequest } from "./ledgers.ts";

/**
 * Sliding windows with more than `max` requests in them for certain: the first of them is taken at the earliest moment
 * at which it can have come (a receiver that stood still for a while sees its requests late and close together).
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
