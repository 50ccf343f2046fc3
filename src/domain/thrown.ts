/** Returns a thrown error as it is, and anything else that was thrown as the message of an error. */
export function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

/** Returns the `code` of a thrown error, such as `ENOENT`; null when it has none that is a text. */
export function codeOf(thrown: unknown): string | null {
  if (typeof thrown !== "object" || thrown === null || !("code" in thrown)) return null;
  return typeof thrown.code === "string" ? thrown.code : null;
}

const FAILURE_CODE = /^[A-Z][A-Z0-9_]*$/;

/** Returns the code of an error's cause, or its own, such as `ECONNREFUSED`; null when neither has one in capitals. */
export function failureCodeOf(error: Error): string | null {
  return [error.cause, error].map(codeOf).find((code) => FAILURE_CODE.test(code ?? "")) ?? null;
}

export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
