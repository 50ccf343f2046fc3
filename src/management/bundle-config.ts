import type { DestinationRow, EndpointBundle } from "../domain/config-store.ts";
import type { DestinationConfig } from "../domain/destination.ts";
import type { EndpointConfig } from "../domain/endpoint.ts";
import { trimJwks } from "../signing/jwt-keys.ts";
import { signatureHeadersOf } from "../signing/signature-headers.ts";
import { openDestination, openEndpoint } from "./sealed-secrets.ts";
import { nonceOf } from "./secret-box.ts";
import type { SecretBox } from "./secret-box.ts";

/** A bundle as ingest and delivery use it: secrets are in clear text, in memory only. */
export interface ConfigBundle {
  readonly endpoint: EndpointConfig;
  readonly destinations: readonly DestinationConfig[];
  /** The same by their ids: each try looks its destination up. */
  readonly destinationsById: ReadonlyMap<string, DestinationConfig>;
  /** Revisions by id; each changes when anything of its endpoint or destination changes. */
  readonly revisions: ReadonlyMap<string, string>;
}

/**
 * Takes the secrets of destinations that have not changed from `before`: an endpoint may have thousands, and opening all of them for
 * each change of one would block the process.
 * @throws {SealedValueError} when a secret cannot be opened
 */
export function toConfigBundle(
  bundle: EndpointBundle,
  box: SecretBox,
  before: ConfigBundle | null,
): ConfigBundle {
  const { endpoint: row } = bundle;
  const settings = openEndpoint(box, row);
  const { config } = settings;
  const signatureHeaders = signatureHeadersOf(settings);
  const revisions = new Map(bundle.destinations.map((row) => [row.id, destinationRevision(row)]));
  const secretsOf = (destination: DestinationRow): DestinationConfig["secrets"] => {
    const { id } = destination;
    const known = before?.destinationsById.get(id);
    return known !== undefined && before?.revisions.get(id) === revisions.get(id)
      ? known.secrets
      : openDestination(box, destination);
  };
  const destinations = bundle.destinations.map((destination) => ({
    id: destination.id,
    endpointId: destination.endpointId,
    orgId: destination.orgId,
    receiverUrl: destination.receiverUrl,
    forwardOriginalSignature: destination.forwardOriginalSignature,
    status: destination.status,
    retryMaxAttempts: destination.retryMaxAttempts,
    retryBackoff: destination.retryBackoff,
    rateLimitMax: destination.rateLimitMax,
    rateLimitWindow: destination.rateLimitWindow,
    secrets: secretsOf(destination),
    signatureHeaders,
    updatedAtMs: destination.updatedAtMs,
  }));
  return {
    endpoint: {
      id: row.id,
      orgId: row.orgId,
      status: row.status,
      ...settings,
      config: Object.hasOwn(config, "jwks")
        ? { ...config, jwks: trimJwks(config["jwks"]) }
        : config,
    },
    destinations,
    destinationsById: new Map(destinations.map((destination) => [destination.id, destination])),
    revisions: revisions.set(row.id, revisionOf(row)),
  };
}

/**
 * Returns a destination's revision. It names the settings: a change whose time is not later than that of the one before it (by another
 * process, whose clock is behind, or after a clock was set back) is stored under the same time.
 */
function destinationRevision(row: DestinationRow): string {
  const { receiverUrl, forwardOriginalSignature, rateLimitMax, rateLimitWindow } = row;
  const { retryMaxAttempts, retryBackoff } = row;
  return `${revisionOf(row)} ${receiverUrl} ${forwardOriginalSignature} ${retryMaxAttempts} ${retryBackoff} ${rateLimitMax} ${rateLimitWindow}`;
}

/** Returns what tells that a row was written; the nonce of the sealed value tells two writes within one millisecond apart. */
function revisionOf(row: Pick<DestinationRow, "updatedAtMs" | "status" | "sealed">): string {
  const nonce = Buffer.from(nonceOf(row.sealed)).toString("base64");
  return `${row.updatedAtMs} ${row.status} ${nonce}`;
}
