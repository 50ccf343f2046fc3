const TAB = 0x09;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const BACKSLASH = 0x5c;
const QUOTE = 0x27;
const COMMA = 0x2c;
const OPENING = 0x5b;
const SPECIAL = /[\\\t\n\r]/;
/** The letter that stands for an escaped byte; 0 for bytes that stand for themselves. */
const ESCAPES = new Uint8Array(256);
ESCAPES[TAB] = 0x74;
ESCAPES[LINE_FEED] = 0x6e;
ESCAPES[CARRIAGE_RETURN] = 0x72;
ESCAPES[BACKSLASH] = BACKSLASH;

const ESCAPED = [TAB, LINE_FEED, CARRIAGE_RETURN, BACKSLASH];
/** Pieces grow to it: one buffer that grows would be copied over and over. */
const PIECE_BYTES = 1024 * 1024;

/**
 * Writes rows in ClickHouse's TabSeparated. It holds any bytes, and a line feed never stands inside a row: chDB
 * takes two of them for the end of the rows, and cuts white space off the end, which rules RowBinary out.
 * For that reason the last field of a row must not be empty.
 * https://clickhouse.com/docs/interfaces/formats/TabSeparated
 */
export class TabSeparatedWriter {
  readonly #full: Buffer[] = [];
  #fullBytes = 0;
  #buffer: Buffer;
  #length = 0;

  /** @param firstBytes most batches are of a few rows */
  constructor(firstBytes = 64 * 1024) {
    this.#buffer = Buffer.allocUnsafe(firstBytes);
  }

  get sizeBytes(): number {
    return this.#fullBytes + this.#length;
  }

  /** The rows written so far. */
  pieces(): readonly Buffer[] {
    return [...this.#full, this.#buffer.subarray(0, this.#length)];
  }

  string(text: string): void {
    this.#put(SPECIAL.test(text) ? escapeText(text) : text);
    this.#byte(TAB);
  }

  nullableString(text: string | null): void {
    if (text === null) this.#put("\\N\t");
    else this.string(text);
  }

  number(value: number): void {
    this.#put(`${value}\t`);
  }

  bool(value: boolean): void {
    this.#put(value ? "true\t" : "false\t");
  }

  /** A DateTime64(3). */
  time(timeMs: number): void {
    this.#put(`${timeText(timeMs)}\t`);
  }

  nullableTime(timeMs: number | null): void {
    if (timeMs === null) this.#put("\\N\t");
    else this.time(timeMs);
  }

  binary(data: Uint8Array): void {
    this.#reserve(data.length * 2 + 1);
    if (ESCAPED.some((byte) => data.includes(byte))) this.#escaped(data);
    else {
      this.#buffer.set(data, this.#length);
      this.#length += data.length;
    }
    this.#byte(TAB);
  }

  strings(values: readonly string[]): void {
    this.#byte(OPENING);
    for (let index = 0; index < values.length; index += 1) {
      if (index > 0) this.#byte(COMMA);
      this.#quoted(values[index]!);
    }
    this.#put("]\t");
  }

  /** The last field was written: its tab becomes the end of the row. */
  endRow(): void {
    this.#buffer[this.#length - 1] = LINE_FEED;
  }

  /** Byte by byte: an event has a hundred short texts, and joining them first costs more than writing them. */
  #quoted(text: string): void {
    // An escape takes two bytes, other UTF-16 units up to three; then there are the quotes.
    this.#reserve(text.length * 3 + 2);
    const buffer = this.#buffer;
    let at = this.#length;
    buffer[at++] = QUOTE;
    for (let index = 0; index < text.length; index += 1) {
      const code = text.charCodeAt(index);
      if (code > 0x7f) {
        at += buffer.write(escapeText(text.slice(index)).replaceAll("'", "\\'"), at, "utf8");
        break;
      }
      const escape = code === QUOTE ? QUOTE : ESCAPES[code]!;
      if (escape !== 0) buffer[at++] = BACKSLASH;
      buffer[at++] = escape === 0 ? code : escape;
    }
    buffer[at++] = QUOTE;
    this.#length = at;
  }

  #escaped(data: Uint8Array): void {
    const buffer = this.#buffer;
    let at = this.#length;
    for (let index = 0; index < data.length; index += 1) {
      const byte = data[index]!;
      const escape = ESCAPES[byte]!;
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

  #put(text: string): void {
    // A UTF-16 unit takes at most three bytes.
    this.#reserve(text.length * 3);
    this.#length += this.#buffer.write(text, this.#length, "utf8");
  }

  #reserve(sizeBytes: number): void {
    if (this.#length + sizeBytes <= this.#buffer.length) return;
    this.#full.push(this.#buffer.subarray(0, this.#length));
    this.#fullBytes += this.#length;
    const nextBytes = Math.min(this.#buffer.length * 2, PIECE_BYTES);
    this.#buffer = Buffer.allocUnsafe(Math.max(nextBytes, sizeBytes));
    this.#length = 0;
  }
}

function escapeText(text: string): string {
  return text
    .replaceAll("\\", "\\\\")
    .replaceAll("\t", "\\t")
    .replaceAll("\n", "\\n")
    .replaceAll("\r", "\\r");
}

/** Before it (September 2001) seconds have fewer than ten digits, which ClickHouse takes for no time. */
const TEN_DIGITS_FROM_MS = 1e12;

/** Seconds with three decimals: a bare integer would be taken for seconds. */
function timeText(timeMs: number): string {
  const whole = Math.round(timeMs);
  if (whole < TEN_DIGITS_FROM_MS)
    return new Date(whole).toISOString().slice(0, -1).replace("T", " ");
  return `${Math.floor(whole / 1_000)}.${String(whole % 1_000).padStart(3, "0")}`;
}
