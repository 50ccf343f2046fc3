import type { ConfigStore } from "../domain/config-store.ts";
import { noteWrite } from "./audit.ts";

/** The name under which the service's own actions are audited. */
const ACTOR = "relay";
/** Clocks of processes may differ by this much: a change that lies further ahead is from before the clock was set back. */
const CLOCKS_APART_MS = 10_000;

/** The try that a receiver answered with 410: sent to `receiverUrl`, begun at `triedAtMs`. */
interface GoneReceiver {
  readonly orgId: string;
  readonly id: string;
  readonly receiverUrl: string;
  readonly triedAtMs: number;
}

/**
 * Disables a destination whose receiver is gone for good (410 Gone). Returns false when it is deleted, no longer active, has
 * another URL by now, or was changed since the try began: what a person has set since, such as a resume, is not overruled.
 */
export async function disableDestination(
  ports: { readonly store: ConfigStore; readonly now: () => number },
  gone: GoneReceiver,
  why: string,
): Promise<boolean> {
  const { orgId, id, receiverUrl, triedAtMs } = gone;
  return ports.store.write(async (session) => {
    const row = await session.destinations.lock(orgId, id);
    if (row === null || row.status !== "active" || row.receiverUrl !== receiverUrl) return false;
    const atMs = ports.now();
    const isOfLaterClock = row.updatedAtMs > atMs + CLOCKS_APART_MS;
    if (row.updatedAtMs > triedAtMs && !isOfLaterClock) return false;
    await session.destinations.update(orgId, id, {
      status: "disabled",
      updatedAtMs: Math.max(atMs, row.updatedAtMs),
    });
    const actor = { orgId, keyId: ACTOR };
    await noteWrite(session, actor, "destination.disable", id, atMs, { why });
    return true;
  });
}
