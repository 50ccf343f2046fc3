import { waitFor } from "../../support/wait-for.ts";
import type { Arena } from "./arena.ts";
import { nowMs } from "./ledgers.ts";
import { readMetrics, type Trial } from "./trial.ts";

/** Far longer than needed on an idle machine: it tells a standstill from slowness. */
const WAVE_WITHIN_MS = 150_000;

/** Waits until each endpoint's first `perEndpoint` events accepted from now on have reached all its destinations. */
export async function waitForWave(
  { arena, sender, routes }: Trial,
  perEndpoint: number,
): Promise<void> {
  const fromMs = nowMs();
  const { received } = arena.receiver;
  const receivedBefore = received.length;
  let missing: readonly string[] = [];
  const isThrough = (): boolean => {
    const accepted = sender.sent.filter(({ sentMs, status }) => sentMs >= fromMs && status === 200);
    const taken = new Set(
      received
        .slice(receivedBefore)
        .filter(({ status }) => status !== null && status < 300)
        .map(({ eventId, destinationId }) => `${eventId} ${destinationId}`),
    );
    missing = routes.sender.genuine.flatMap(({ endpointId }) => {
      const wave = accepted.filter((one) => one.endpointId === endpointId).slice(0, perEndpoint);
      const wanted = routes.destinations.filter((one) => one.endpointId === endpointId);
      const lacking = wave.flatMap(({ eventId }) =>
        wanted.map(({ id }) => `${eventId} ${id}`).filter((delivery) => !taken.has(delivery)),
      );
      if (wave.length === perEndpoint && lacking.length === 0) return [];
      return `${endpointId}: ${wave.length} of ${perEndpoint} accepted, not delivered: ${lacking.join(", ")}`;
    });
    return missing.length === 0;
  };
  await waitFor("events of each endpoint to come through", isThrough, WAVE_WITHIN_MS, 250).catch(
    (error: unknown) => {
      throw new Error(`these stand still: ${missing.join("; ")}`, { cause: error });
    },
  );
}

/** Reads how often the ingest processes have answered 503 since they started, by cause. */
export async function readRefusals({ cluster }: Arena): Promise<Readonly<Record<string, number>>> {
  const refusals: Record<string, number> = {};
  for (const [, text] of await readMetrics(cluster, "ingest"))
    for (const [, cause = "", count] of text.matchAll(
      /^relay_ingest_unavailable_total\{cause="(\w+)"\} (\S+)$/gm,
    ))
      refusals[cause] = (refusals[cause] ?? 0) + Number(count);
  return refusals;
}
