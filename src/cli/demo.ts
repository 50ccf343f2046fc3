import type { CommandIo } from "./io.ts";
export async function demo(_io: CommandIo): Promise<number> {
  return 1;
}
