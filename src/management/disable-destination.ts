import type { ConfigStore } from "../domain/config-store.ts";

/** What the service does by itself is audited under this name. */
const ACTOR = "relay";

/** What a 410 was answered to: a try at `receiverUrl` that began at `triedAtMs`. */
interface GoneReceiver {
  readonly orgId: string;
  readonly id: string;
  readonly receiverUrl: string;
  readonly triedAtMs: number;
}

/**
 * Disables a destination whose receiver is gone for good (410 Gone). False when it is deleted, no longer active, has another URL
 * by now, or was changed since the try began: what a person set meanwhile, such as a resume, is not overruled.
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
    if (row.updatedAtMs > triedAtMs) return false;
    const atMs = ports.now();
    await session.destinations.update(orgId, id, {
      status: "disabled",
      updatedAtMs: Math.max(atMs, row.updatedAtMs),
    });
    await session.audit({
      orgId,
      actor: ACTOR,
      action: "destination.disable",
      targetId: id,
      atMs,
      detail: { why },
    });
    return true;
  });
}
