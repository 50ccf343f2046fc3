import { nextTurn, visitInTurns } from "../domain/next-turn.ts";

/** A shorter array is written at once. */
const LONG_ITEMS = 500;
/** UTF-16 units of a text that are written at once: a payload of 10 MB may need six characters for each of its own. */
const PIECE_UNITS = 64 * 1024;
/** A longer answer is given as bytes: to join and encode sixty megabytes would block the process for a quarter of a second. */
const MAX_TEXT_UNITS = 1024 * 1024;

/**
 * Writes what `JSON.stringify` does; items of a long array, and pieces of a long text, also of one within objects, are written in turns
 * of the event loop. Returns a large answer as its bytes in UTF-8.
 * @param turn is awaited between the pieces of a text and of a large answer; what it throws ends the work
 */
export async function writeJson(
  value: unknown,
  turn: () => Promise<void> = nextTurn,
): Promise<string | Uint8Array<ArrayBuffer>> {
  const pieces: string[] = [];
  await write(value, pieces, turn);
  const units = pieces.reduce((sum, { length }) => sum + length, 0);
  return units > MAX_TEXT_UNITS ? encode(pieces, turn) : pieces.join("");
}

async function write(value: unknown, pieces: string[], turn: () => Promise<void>): Promise<void> {
  if (typeof value === "string" && value.length > PIECE_UNITS)
    return writeText(value, pieces, turn);
  if (Array.isArray(value) && value.length > LONG_ITEMS) return writeItems(value, pieces);
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    pieces.push(JSON.stringify(value));
    return;
  }
  let before = "{";
  for (const [name, member] of Object.entries(value)) {
    if (member === undefined) continue;
    pieces.push(`${before}${JSON.stringify(name)}:`);
    await write(member, pieces, turn);
    before = ",";
  }
  pieces.push(before === "{" ? "{}" : "}");
}

async function writeItems(items: readonly unknown[], pieces: string[]): Promise<void> {
  await visitInTurns(items, (item, index) =>
    pieces.push(`${index === 0 ? "[" : ","}${JSON.stringify(item)}`),
  );
  pieces.push("]");
}

async function writeText(text: string, pieces: string[], turn: () => Promise<void>): Promise<void> {
  pieces.push('"');
  for (let from = 0; from < text.length;) {
    if (from > 0) await turn();
    let end = from + PIECE_UNITS;
    // A surrogate pair is written as it is, but each half by itself as an escape.
    if (isHighSurrogate(text.charCodeAt(end - 1))) end += 1;
    pieces.push(JSON.stringify(text.slice(from, end)).slice(1, -1));
    from = end;
  }
  pieces.push('"');
}

/** No piece ends within a surrogate pair. */
async function encode(
  pieces: readonly string[],
  turn: () => Promise<void>,
): Promise<Uint8Array<ArrayBuffer>> {
  const encoded: Buffer<ArrayBuffer>[] = [];
  let units = 0;
  for (const piece of pieces) {
    encoded.push(Buffer.from(piece));
    units += piece.length;
    if (units < PIECE_UNITS) continue;
    units = 0;
    await turn();
  }
  return Buffer.concat(encoded);
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}
