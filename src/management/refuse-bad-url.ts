import { RelayError } from "../domain/errors.ts";
import type { ManagementPorts } from "./ports.ts";

/**
 * Refuses a URL that the guard would not dial. Call it before any transaction: resolving names may take seconds.
 * @throws {RelayError} `validation_error` that names the field
 */
export async function refuseBadUrl(
  checkReceiver: ManagementPorts["checkReceiver"],
  field: string,
  url: string,
): Promise<void> {
  const verdict = await checkReceiver(url);
  if (!verdict.ok)
    throw new RelayError("validation_error", `${field}: ${verdict.reason}`, { field });
}
