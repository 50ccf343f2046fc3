import type { AuditEntry, StoreSession } from "../domain/config-store.ts";
import type { Actor } from "./management.ts";

/** Records a write, in the session's transaction if there is one: who, what and when, with field names but never values. */
export async function noteWrite(
  session: StoreSession,
  ...write: Parameters<typeof auditEntry>
): Promise<void> {
  await session.audit([auditEntry(...write)]);
}

/** Makes the record of a write. */
export function auditEntry(
  actor: Pick<Actor, "orgId" | "keyId">,
  action: string,
  targetId: string,
  atMs: number,
  detail: Readonly<Record<string, unknown>> = {},
): AuditEntry {
  return { orgId: actor.orgId, actor: actor.keyId, action, targetId, atMs, detail };
}
