import { visitInTurns } from "../domain/next-turn.ts";

/** A shorter array is written at once. */
const LONG_ITEMS = 500;

/** Writes what `JSON.stringify` does; items of a long array, also of one within objects, are written in turns of the event loop. */
export async function writeJson(value: unknown): Promise<string> {
  if (Array.isArray(value) && value.length > LONG_ITEMS) return writeItems(value);
  if (value === null || typeof value !== "object" || Array.isArray(value))
    return JSON.stringify(value);
  const members: string[] = [];
  for (const [name, member] of Object.entries(value))
    if (member !== undefined) members.push(`${JSON.stringify(name)}:${await writeJson(member)}`);
  return `{${members.join(",")}}`;
}

async function writeItems(items: readonly unknown[]): Promise<string> {
  const texts: string[] = [];
  await visitInTurns(items, (item) => texts.push(JSON.stringify(item)));
  return `[${texts.join(",")}]`;
}
