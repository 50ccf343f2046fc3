import { RelayError } from "../domain/errors.ts";
import type { ManagementPorts } from "./ports.ts";

/**
 * Before any transaction: names are resolved, which may take seconds.
 * @throws {RelayError} `validation_error` that names the field, when the guard that will dial the URL refuses it
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
