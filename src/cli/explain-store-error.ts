import { RelayError, UsageError } from "../domain/errors.ts";

/**
 * One line that names the store: what the network says is told by its code, what the server says by its first line.
 * @param store such as `PostgreSQL at postgresql://host/database`, without credentials
 */
export function explainStoreError(store: string, error: unknown): Error {
  if (error instanceof UsageError) return error;
  const root = error instanceof RelayError && error.cause !== undefined ? error.cause : error;
  if (!(root instanceof Error)) return new RelayError("unavailable", `${store} failed`);
  const code = "code" in root && typeof root.code === "string" ? root.code : "";
  const message = /^E[A-Z_]+$/.test(code)
    ? `cannot be reached (${code})`
    : `failed: ${root.message.split("\n", 1)[0] ?? ""}`;
  return new RelayError("unavailable", `${store} ${message}`, { cause: error });
}
