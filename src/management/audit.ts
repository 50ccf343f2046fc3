import type { StoreSession } from "../domain/config-store.ts";
import type { Actor } from "./management.ts";

/** Records a write, in the session's transaction if there is one: who, what and when, with field names but never values. */
export async function noteWrite(
  session: StoreSession,
  actor: Pick<Actor, "orgId" | "keyId">,
  action: string,
  targetId: string,
  atMs: number,
  detail: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  await session.audit({ orgId: actor.orgId, actor: actor.keyId, action, targetId, atMs, detail });
}
