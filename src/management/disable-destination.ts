import type { ConfigStore } from "../domain/config-store.ts";

/** What the service does by itself is audited under this name. */
const ACTOR = "relay";

/**
 * Disables a destination whose receiver is gone for good (410 Gone at `receiverUrl`). False when it is deleted, no longer active,
 * or has another URL by now: what a person set meanwhile is not overruled.
 */
export async function disableDestination(
  ports: { readonly store: ConfigStore; readonly now: () => number },
  destination: { readonly orgId: string; readonly id: string; readonly receiverUrl: string },
  why: string,
): Promise<boolean> {
  const { orgId, id, receiverUrl } = destination;
  return ports.store.write(async (session) => {
    const row = await session.destinations.lock(orgId, id);
    if (row === null || row.status !== "active" || row.receiverUrl !== receiverUrl) return false;
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
