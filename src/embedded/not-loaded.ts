import { UsageError } from "../domain/errors.ts";

/** Explains a missing dependency, which is optional: an image for a cluster does without. Any other cause speaks for itself. */
export function notLoaded(engine: string, variable: string, cause: unknown): UsageError {
  const { code, message } = cause as Partial<NodeJS.ErrnoException>;
  if (code === "ERR_MODULE_NOT_FOUND")
    return new UsageError(
      `the embedded ${engine} is not installed: set ${variable}, or run npm ci with optional dependencies`,
      { cause },
    );
  return new UsageError(
    `the embedded ${engine} cannot be loaded (${String(message).split("\n", 1)[0]}): see NODE_OPTIONS, run npm ci, or set ${variable}`,
    { cause },
  );
}
