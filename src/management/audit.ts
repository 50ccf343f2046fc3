import type { StoreSession } from "../domain/config-store.ts";
import type { Actor } from "./management.ts";

/** Notes a write in the same transaction: who, what, when; field names and never values. */
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
