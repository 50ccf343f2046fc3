import { TokenList } from "../../domain/token-list.ts";
import { PIECE_BYTES } from "./piece-pool.ts";
import type { PiecePool } from "./piece-pool.ts";

const TAB = 0x09;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const BACKSLASH = 0x5c;
const QUOTE = 0x27;
const COMMA = 0x2c;
const OPENING = 0x5b;
/** The letter that stands for an escaped byte; 0 for bytes that stand for themselves. */
const ESCAPES = new Uint8Array(256);
ESCAPES[TAB] = 0x74;
ESCAPES[LINE_FEED] = 0x6e;
ESCAPES[CARRIAGE_RETURN] = 0x72;
ESCAPES[BACKSLASH] = BACKSLASH;
/** The same for text between quotes. */
const QUOTED_ESCAPES = ESCAPES.slice();
QUOTED_ESCAPES[QUOTE] = QUOTE;

const ESCAPED = [TAB, LINE_FEED, CARRIAGE_RETURN, BACKSLASH];

/**
 * Writes rows in ClickHouse's TabSeparated. It holds any bytes and never has a line feed inside a row: chDB
 * takes two of them for the end of the rows, and strips white space off the end, which rules RowBinary out.
 * For the same reason the last field of a row must not be empty.
 * https://clickhouse.com/docs/interfaces/formats/TabSeparated
 */
export class TabSeparatedWriter {
  readonly #full: Buffer[] = [];
  #fullBytes = 0;
  #buffer: Buffer;
  #length = 0;
  readonly #pool: PiecePool;
  readonly #taken: Buffer[] = [];
  readonly #tokens = new TokenList();

  /** @param firstBytes enough for most batches, of few rows; then pieces are added, since a growing buffer is copied over and over */
  constructor(pool: PiecePool, firstBytes = 64 * 1024) {
    this.#pool = pool;
    this.#buffer = Buffer.allocUnsafe(firstBytes);
  }

  get sizeBytes(): number {
    return this.#fullBytes + this.#length;
  }

  /** Returns the rows written so far. */
  pieces(): readonly Buffer[] {
    return [...this.#full, this.#buffer.subarray(0, this.#length)];
  }

  /** Gives the pieces back: nothing reads what was written any more, and nothing more will be written. */
  giveBack(): void {
    this.#pool.giveBack(this.#taken);
  }

  string(text: string): void {
    this.piece(text);
    this.endString();
  }

  /** Writes a part of a string that `endString` ends. */
  piece(text: string): void {
    this.#text(text, ESCAPES);
  }

  endString(): void {
    this.#byte(TAB);
  }

  nullableString(text: string | null): void {
    if (text === null) this.#plain("\\N\t");
    else this.string(text);
  }

  /** Has the column's default expression apply, in a column that takes no null. */
  byDefault(): void {
    this.#plain("\\N\t");
  }

  number(value: number): void {
    this.#plain(`${value}\t`);
  }

  bool(value: boolean): void {
    this.#plain(value ? "true\t" : "false\t");
  }

  /** Writes a DateTime64(3). */
  time(timeMs: number): void {
    this.#plain(`${timeText(timeMs)}\t`);
  }

  nullableTime(timeMs: number | null): void {
    if (timeMs === null) this.#plain("\\N\t");
    else this.time(timeMs);
  }

  binary(data: Uint8Array): void {
    this.#reserve(data.length * 2 + 1);
    if (ESCAPED.some((byte) => data.includes(byte))) this.#bytes(data, 0, data.length, ESCAPES);
    else {
      this.#buffer.set(data, this.#length);
      this.#length += data.length;
    }
    this.#byte(TAB);
  }

  strings(values: readonly string[]): void {
    this.#byte(OPENING);
    for (const [index, text] of values.entries()) {
      if (index > 0) this.#byte(COMMA);
      this.#byte(QUOTE);
      this.#text(text, QUOTED_ESCAPES);
      this.#byte(QUOTE);
    }
    this.#plain("]\t");
  }

  /** Returns the list whose tokens `endTokens` writes: empty, and valid until then. */
  startTokens(): TokenList {
    this.#tokens.clear();
    return this.#tokens;
  }

  /** Writes the array of what was added since `startTokens`. */
  endTokens(): void {
    const tokens = this.#tokens;
    // Each byte may be escaped; each token has quotes and a comma; then there are the brackets.
    this.#reserve(tokens.sizeBytes * 2 + tokens.ends.length * 3 + 2);
    this.#byte(OPENING);
    let from = 0;
    for (const [index, end] of tokens.ends.entries()) {
      if (index > 0) this.#byte(COMMA);
      this.#byte(QUOTE);
      this.#bytes(tokens.bytes, from, end, QUOTED_ESCAPES);
      this.#byte(QUOTE);
      from = end;
    }
    this.#plain("]\t");
  }

  /** Ends the row after its last field, whose tab becomes the line feed. */
  endRow(): void {
    this.#buffer[this.#length - 1] = LINE_FEED;
  }

  /** Writes one character at a time: a call into native code costs as much as a hundred of them, and most texts have fewer. */
  #text(text: string, escapes: Uint8Array): void {
    // An escape takes two bytes, any other UTF-16 unit up to three.
    this.#reserve(text.length * 3);
    const buffer = this.#buffer;
    let at = this.#length;
    for (let index = 0; index < text.length; index += 1) {
      const code = text.charCodeAt(index);
      if (code > 0x7f) {
        at += buffer.write(escapeText(text.slice(index), escapes === QUOTED_ESCAPES), at, "utf8");
        break;
      }
      const escape = escapes[code]!;
      if (escape !== 0) buffer[at++] = BACKSLASH;
      buffer[at++] = escape === 0 ? code : escape;
    }
    this.#length = at;
  }

  #bytes(data: Uint8Array, from: number, end: number, escapes: Uint8Array): void {
    const buffer = this.#buffer;
    let at = this.#length;
    for (let index = from; index < end; index += 1) {
      const byte = data[index]!;
      const escape = escapes[byte]!;
      if (escape !== 0) buffer[at++] = BACKSLASH;
      buffer[at++] = escape === 0 ? byte : escape;
    }
    this.#length = at;
  }

  #byte(value: number): void {
    this.#reserve(1);
    this.#buffer[this.#length] = value;
    this.#length += 1;
  }

  /** Writes ASCII that needs no escape. */
  #plain(text: string): void {
    this.#reserve(text.length);
    const buffer = this.#buffer;
    let at = this.#length;
    for (let index = 0; index < text.length; index += 1) buffer[at++] = text.charCodeAt(index);
    this.#length = at;
  }

  #reserve(sizeBytes: number): void {
    if (this.#length + sizeBytes <= this.#buffer.length) return;
    this.#full.push(this.#buffer.subarray(0, this.#length));
    this.#fullBytes += this.#length;
    this.#buffer = this.#next(Math.max(Math.min(this.#buffer.length * 2, PIECE_BYTES), sizeBytes));
    this.#length = 0;
  }

  #next(sizeBytes: number): Buffer {
    if (sizeBytes !== PIECE_BYTES) return Buffer.allocUnsafe(sizeBytes);
    const piece = this.#pool.take();
    this.#taken.push(piece);
    return piece;
  }
}

/** Escapes text for TabSeparated and for a statement's parameters. @param isQuoted in an array, between quotes */
export function escapeText(text: string, isQuoted: boolean): string {
  const escaped = text
    .replaceAll("\\", "\\\\")
    .replaceAll("\t", "\\t")
    .replaceAll("\n", "\\n")
    .replaceAll("\r", "\\r");
  return isQuoted ? escaped.replaceAll("'", "\\'") : escaped;
}

/** Before this (September 2001), seconds have fewer than ten digits, and from 2286 on more, which ClickHouse does not take for a time. */
const TEN_DIGITS_FROM_MS = 1e12;
const TEN_DIGITS_UNTIL_MS = 1e13;
/** The last moment that a DateTime64 holds; an id may name later ones, which no event has. */
const LATEST_MS = Date.UTC(2299, 11, 31, 23, 59, 59, 999);

/** Returns seconds with three decimals, since a bare integer would be taken for seconds; a date and time where they have not ten digits. */
export function timeText(timeMs: number): string {
  const whole = Math.min(Math.round(timeMs), LATEST_MS);
  if (whole < TEN_DIGITS_FROM_MS || whole >= TEN_DIGITS_UNTIL_MS)
    return new Date(whole).toISOString().slice(0, -1).replace("T", " ");
  return `${Math.floor(whole / 1_000)}.${String(whole % 1_000).padStart(3, "0")}`;
}
