import type { SigningSecret } from "../domain/destination.ts";
import type { DestinationRow, EndpointRow } from "../domain/config-store.ts";
import type { VerificationSettings } from "../domain/verification.ts";
import type { SecretBox } from "./secret-box.ts";

/** The part of an endpoint that is kept encrypted. */
type EndpointSecrets = Pick<VerificationSettings, "secret" | "config">;

export function sealEndpoint(
  box: SecretBox,
  id: string,
  { secret, config }: EndpointSecrets,
): Uint8Array {
  return box.seal({ secret, config }, id);
}

/** Returns how the endpoint verifies, its secret in clear text. @throws {SealedValueError} */
export function openEndpoint(box: SecretBox, row: EndpointRow): VerificationSettings {
  return {
    provider: row.provider,
    method: row.verificationMethod,
    methodIsExplicit: row.methodIsExplicit,
    ...(box.open(row.sealed, row.id) as EndpointSecrets),
  };
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
