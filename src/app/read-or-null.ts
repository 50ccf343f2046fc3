import { readFile } from "node:fs/promises";
import { systemReason, UsageError } from "../domain/errors.ts";

/**
 * Returns the text of a file, or null when there is none.
 * @param advice what to do about a file that cannot be read
 * @throws {UsageError} for a file that exists but cannot be read
 */
export async function readOrNull(
  file: string,
  advice = "let this user read it",
): Promise<string | null> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    const reason = systemReason(error);
    if (reason === "ENOENT") return null;
    throw new UsageError(`${file} cannot be read (${reason}): ${advice}`, { cause: error });
  }
}
