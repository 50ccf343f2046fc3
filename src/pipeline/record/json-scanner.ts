const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const LETTER_U = 0x75;
const MINUS = 0x2d;
const PLUS = 0x2b;
const POINT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const WORDS = ["true", "false", "null"].map((word) => Buffer.from(word));
/** What may follow a backslash, besides `u`. */
const ESCAPABLE: ReadonlySet<number> = new Set(Buffer.from('"\\/bfnrt'));
const HEX_DIGITS: ReadonlySet<number> = new Set(Buffer.from("0123456789abcdefABCDEF"));
const HEX_LENGTH = 4;

/** Reads the bytes of a JSON text (RFC 8259), known to be UTF-8, one after the other. */
export class JsonScanner {
  readonly bytes: Uint8Array;
  at = 0;
  /** Where the scalar read last begins (a string without its quotes); `end` is where it ends. */
  from = 0;
  end = 0;
  /** Code points of the scalar read last, unless it has escapes. */
  characters = 0;
  hasEscapes = false;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }

  /** The byte at `at`; -1 after the last one. */
  get next(): number {
    return this.at < this.bytes.length ? this.bytes[this.at]! : -1;
  }

  skipSpace(): void {
    let { next } = this;
    while (next <= 0x20 && (next === 0x20 || next === 0x0a || next === 0x0d || next === 0x09)) {
      this.at += 1;
      ({ next } = this);
    }
  }

  /** Moves past the scalar that begins here; returns false when none does. */
  readScalar(): boolean {
    if (this.next === QUOTE) return this.readString();
    this.from = this.at;
    const isScalar = this.#readWord() || this.#readNumber();
    this.end = this.at;
    this.characters = this.end - this.from;
    this.hasEscapes = false;
    return isScalar;
  }

  /** Moves past the string that begins here; returns false when none does. */
  readString(): boolean {
    if (this.next !== QUOTE) return false;
    const { bytes } = this;
    const from = this.at + 1;
    let hasEscapes = false;
    let continuations = 0;
    for (let at = from; at < bytes.length; at += 1) {
      const byte = bytes[at]!;
      if (byte === QUOTE) {
        this.from = from;
        this.end = at;
        this.at = at + 1;
        this.hasEscapes = hasEscapes;
        this.characters = at - from - continuations;
        return true;
      }
      if (byte < 0x20) return false;
      if (byte >= 0x80 && byte < 0xc0) continuations += 1;
      if (byte !== BACKSLASH) continue;
      hasEscapes = true;
      at = this.#escapeEnd(at) - 1;
      if (at < 0) return false;
    }
    return false;
  }

  /** Returns the index after the escape whose backslash is at `at`, or -1 if it is invalid. */
  #escapeEnd(at: number): number {
    const letter = this.bytes[at + 1];
    if (letter === undefined) return -1;
    if (letter !== LETTER_U) return ESCAPABLE.has(letter) ? at + 2 : -1;
    const from = at + 2;
    for (let index = from; index < from + HEX_LENGTH; index += 1)
      if (!HEX_DIGITS.has(this.bytes[index] ?? -1)) return -1;
    return from + HEX_LENGTH;
  }

  #readWord(): boolean {
    for (const word of WORDS) {
      if (this.next !== word[0]) continue;
      for (let index = 1; index < word.length; index += 1)
        if (this.bytes[this.at + index] !== word[index]) return false;
      this.at += word.length;
      return true;
    }
    return false;
  }

  /** Moves past what is a number; the caller looks at what follows. */
  #readNumber(): boolean {
    const first = this.next === MINUS ? this.at + 1 : this.at;
    let end = this.bytes[first] === ZERO ? first + 1 : this.#digitsEnd(first);
    if (end === first) return false;
    if (this.bytes[end] === POINT) end = orStay(this.#digitsEnd(end + 1), end + 1, end);
    if (((this.bytes[end] ?? 0) | 0x20) === 0x65) {
      const sign = this.bytes[end + 1];
      const digits = sign === PLUS || sign === MINUS ? end + 2 : end + 1;
      end = orStay(this.#digitsEnd(digits), digits, end);
    }
    this.at = end;
    return true;
  }

  #digitsEnd(from: number): number {
    let at = from;
    while (at < this.bytes.length && this.bytes[at]! >= ZERO && this.bytes[at]! <= NINE) at += 1;
    return at;
  }
}

/** Leaves out a point or an `e` that no digit follows: it is not part of the number. */
function orStay(end: number, digits: number, before: number): number {
  return end > digits ? end : before;
}
