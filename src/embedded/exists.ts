import { stat } from "node:fs/promises";
import { systemReason } from "../domain/errors.ts";

/** @throws {Error} when it cannot be told: what is there must not be taken for missing */
export async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (systemReason(error) === "ENOENT") return false;
    throw error;
  }
}
