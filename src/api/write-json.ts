import { nextTurn, visitInTurns } from "../domain/next-turn.ts";

/** A shorter array is written at once. */
const LONG_ITEMS = 500;
/** UTF-16 units of a text that are written at once: a payload of 10 MB may need six characters for each of its own. */
const PIECE_UNITS = 64 * 1024;

/**
 * Writes what `JSON.stringify` does; items of a long array, and pieces of a long text, also of one within objects, are written in turns
 * of the event loop.
 */
export async function writeJson(value: unknown): Promise<string> {
  if (typeof value === "string" && value.length > PIECE_UNITS) return writeText(value);
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

async function writeText(text: string): Promise<string> {
  const pieces: string[] = [];
  for (let from = 0; from < text.length;) {
    if (from > 0) await nextTurn();
    let end = from + PIECE_UNITS;
    // A surrogate pair is written as it is, but each half by itself as an escape.
    if (isHighSurrogate(text.charCodeAt(end - 1))) end += 1;
    pieces.push(JSON.stringify(text.slice(from, end)).slice(1, -1));
    from = end;
  }
  return `"${pieces.join("")}"`;
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}
