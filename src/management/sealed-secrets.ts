import type { SigningSecret } from "../domain/destination.ts";
import type { DestinationRow, EndpointRow } from "../domain/config-store.ts";
import type { SecretBox } from "./secret-box.ts";

/** The part of an endpoint that is kept encrypted. */
export interface EndpointSecrets {
  readonly secret: string | null;
  readonly config: Readonly<Record<string, unknown>>;
}

export function sealEndpoint(
  box: SecretBox,
  id: string,
  { secret, config }: EndpointSecrets,
): Uint8Array {
  return box.seal({ secret, config }, id);
}

/** @throws {SealedValueError} */
export function openEndpoint(
  box: SecretBox,
  row: Pick<EndpointRow, "id" | "sealed">,
): EndpointSecrets {
  return box.open(row.sealed, row.id) as EndpointSecrets;
}

export function sealDestination(
  box: SecretBox,
  id: string,
  secrets: readonly SigningSecret[],
): Uint8Array {
  return box.seal(secrets, id);
}

/** Returns the secrets, newest first. @throws {SealedValueError} */
export function openDestination(
  box: SecretBox,
  row: Pick<DestinationRow, "id" | "sealed">,
): readonly SigningSecret[] {
  return box.open(row.sealed, row.id) as readonly SigningSecret[];
}
