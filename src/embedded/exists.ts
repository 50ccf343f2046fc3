import { stat } from "node:fs/promises";

/** @throws {Error} when it cannot be told: what is there must not be taken for missing */
export async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}
