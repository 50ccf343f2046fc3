import { MAX_API_KEY_LENGTH, type Scope } from "../domain/api-key.ts";
import type { Actor, Management } from "../management/management.ts";
import { ApiFailure } from "./api-failure.ts";

/** RFC 6750 credentials; the length bound keeps junk away from the store. */
const BEARER = new RegExp(`^Bearer +([\\x21-\\x7e]{1,${MAX_API_KEY_LENGTH}})$`, "i");

/** @throws {ApiFailure} `unauthorized`. @throws {RelayError} `unavailable` */
export async function authenticate(
  authorization: string | null,
  management: Pick<Management, "authenticate">,
): Promise<Actor> {
  const key = authorization === null ? undefined : BEARER.exec(authorization)?.[1];
  if (key === undefined)
    throw new ApiFailure(
      "unauthorized",
      "An API key is required: send the header Authorization: Bearer <API_KEY>.",
    );
  const actor = await management.authenticate(key);
  if (actor === null) throw new ApiFailure("unauthorized", "The API key is unknown or revoked.");
  return actor;
}

/** @throws {ApiFailure} `forbidden` */
export function requireScope(actor: Actor, scope: Scope): void {
  if (!actor.scopes.includes(scope))
    throw new ApiFailure("forbidden", `This API key lacks the scope "${scope}".`);
}
