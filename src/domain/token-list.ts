import { asciiLower } from "./searchable-leaf.ts";

const FIRST_BYTES = 4_096;
const UPPER_A = 0x41;
const UPPER_Z = 0x5a;
const LOWER = 0x20;

/**
 * The tokens of an event (see searchable-leaf.ts) in UTF-8, one after the other. An event has dozens of them, and as strings
 * they would cost more than all else that recording does. Filled piece by piece, with `end` after each token; reusable after
 * `clear`.
 */
export class TokenList {
  #bytes = Buffer.allocUnsafe(FIRST_BYTES);
  #length = 0;
  /** Where each token ends. */
  readonly #ends: number[] = [];

  /** The bytes of all tokens; ignore those beyond `sizeBytes`. Valid until more is added. */
  get bytes(): Uint8Array {
    return this.#bytes;
  }

  get sizeBytes(): number {
    return this.#length;
  }

  /** Where each token ends in `bytes`. */
  get ends(): readonly number[] {
    return this.#ends;
  }

  clear(): void {
    this.keepFirst(0);
  }

  /** Drops all but the first `count` tokens. */
  keepFirst(count: number): void {
    this.#ends.length = count;
    this.#length = this.#ends.at(-1) ?? 0;
  }

  /** Ends a token: it consists of the pieces added since the previous one. */
  end(): void {
    this.#ends.push(this.#length);
  }

  byte(value: number): void {
    this.#reserve(1);
    this.#bytes[this.#length] = value;
    this.#length += 1;
  }

  /** Copies byte by byte: they are few, and a call into native code costs as much as a hundred of them. */
  slice(source: Uint8Array, from: number, end: number): void {
    this.#reserve(end - from);
    const bytes = this.#bytes;
    let at = this.#length;
    for (let index = from; index < end; index += 1) bytes[at++] = source[index]!;
    this.#length = at;
  }

  text(text: string): void {
    this.#text(text, false);
  }

  /** Adds a text with A–Z in lower case, as the store's `lower` does to bytes. */
  lowerText(text: string): void {
    this.#text(text, true);
  }

  toTexts(): string[] {
    return this.#ends.map((end, index) =>
      this.#bytes.toString("utf8", index === 0 ? 0 : this.#ends[index - 1]!, end),
    );
  }

  #text(text: string, lower: boolean): void {
    // A UTF-16 unit takes at most three bytes.
    this.#reserve(text.length * 3);
    const bytes = this.#bytes;
    let at = this.#length;
    for (let index = 0; index < text.length; index += 1) {
      const code = text.charCodeAt(index);
      if (code > 0x7f) {
        const rest = text.slice(index);
        at += bytes.write(lower ? asciiLower(rest) : rest, at, "utf8");
        break;
      }
      bytes[at++] = lower && code >= UPPER_A && code <= UPPER_Z ? code + LOWER : code;
    }
    this.#length = at;
  }

  #reserve(sizeBytes: number): void {
    if (this.#length + sizeBytes <= this.#bytes.length) return;
    const longer = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#length + sizeBytes));
    longer.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = longer;
  }
}
