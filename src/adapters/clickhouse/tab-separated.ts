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

/**
 * Writes rows in ClickHouse's TabSeparated. It holds any bytes, and a line feed never stands inside a row: chDB
 * takes two of them for the end of the rows, and cuts white space off the end, which rules RowBinary out.
 * For that reason the last field of a row must not be empty.
 * https://clickhouse.com/docs/interfaces/formats/TabSeparated
 */
export class TabSeparatedWriter {
  #buffer: Buffer;
  #length = 0;

  constructor(initialBytes = 64 * 1024) {
    this.#buffer = Buffer.allocUnsafe(initialBytes);
  }

  get sizeBytes(): number {
    return this.#length;
  }

  /** The rows written so far. */
  bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
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
    const buffer = this.#buffer;
    let at = this.#length;
    for (let index = 0; index < data.length; index += 1) {
      const byte = data[index]!;
      const escape = ESCAPES[byte]!;
      if (escape === 0) {
        buffer[at] = byte;
        at += 1;
      } else {
        buffer[at] = BACKSLASH;
        buffer[at + 1] = escape;
        at += 2;
      }
    }
    this.#length = at;
    this.#byte(TAB);
  }

  strings(values: readonly string[]): void {
    this.#byte(OPENING);
    for (const [index, value] of values.entries()) {
      if (index > 0) this.#byte(COMMA);
      this.#quoted(value);
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
    const bigger = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.#length + sizeBytes));
    this.#buffer.copy(bigger, 0, 0, this.#length);
    this.#buffer = bigger;
  }
}

function escapeText(text: string): string {
  return text
    .replaceAll("\\", "\\\\")
    .replaceAll("\t", "\\t")
    .replaceAll("\n", "\\n")
    .replaceAll("\r", "\\r");
}

/** Seconds with three decimals: a bare integer would be taken for seconds. */
function timeText(timeMs: number): string {
  const whole = Math.round(timeMs);
  return `${Math.floor(whole / 1_000)}.${String(whole % 1_000).padStart(3, "0")}`;
}
