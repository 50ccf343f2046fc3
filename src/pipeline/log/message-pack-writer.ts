const MAX_FIXSTR = 31;
/** Beyond this, Node's own encoder is faster than a loop over the characters. */
const LOOP_MAX_CHARACTERS = 48;
const MAX_UINT16 = 0xffff;
const MAX_UINT32 = 0xffff_ffff;
/** Size of the longest text's head. */
const TEXT_HEAD_BYTES = 5;

/** Returns the most bytes that a text may take: its head, and three bytes a character (UTF-16 to UTF-8). */
export function maxTextBytes(text: string): number {
  return TEXT_HEAD_BYTES + text.length * 3;
}

/**
 * Writes MessagePack (https://github.com/msgpack/msgpack/blob/master/spec.md) into its caller's buffer, which must have room.
 * Covers only what the log's heads are made of; any MessagePack reader can read it.
 */
export class MessagePackWriter {
  readonly buffer: Buffer;
  at: number;

  constructor(buffer: Buffer, at: number) {
    this.buffer = buffer;
    this.at = at;
  }

  array(length: number): void {
    if (length < 16) {
      this.buffer[this.at++] = 0x90 | length;
      return;
    }
    this.buffer[this.at] = 0xdc;
    this.at = this.buffer.writeUInt16BE(length, this.at + 1);
  }

  flag(value: boolean): void {
    this.buffer[this.at++] = value ? 0xc3 : 0xc2;
  }

  /** Writes a non-negative integer. */
  count(value: number): void {
    const { buffer } = this;
    if (value < 0x80) buffer[this.at++] = value;
    else if (value <= MAX_UINT32) {
      buffer[this.at] = 0xce;
      this.at = buffer.writeUInt32BE(value, this.at + 1);
    } else this.#double(value);
  }

  number(value: number): void {
    if (Number.isInteger(value) && value >= 0) this.count(value);
    else this.#double(value);
  }

  optionalNumber(value: number | null): void {
    if (value === null) this.buffer[this.at++] = 0xc0;
    else this.number(value);
  }

  optionalText(text: string | null): void {
    if (text === null) this.buffer[this.at++] = 0xc0;
    else this.text(text);
  }

  text(text: string): void {
    if (text.length > LOOP_MAX_CHARACTERS || !this.#ascii(text)) this.#utf8(text);
  }

  #double(value: number): void {
    this.buffer[this.at] = 0xcb;
    this.at = this.buffer.writeDoubleBE(value, this.at + 1);
  }

  /** Writes an ASCII text; at any other character returns false and leaves `at` as it was. */
  #ascii(text: string): boolean {
    const { buffer } = this;
    const { length } = text;
    let at = this.at;
    if (length <= MAX_FIXSTR) buffer[at++] = 0xa0 | length;
    else {
      buffer[at++] = 0xd9;
      buffer[at++] = length;
    }
    for (let index = 0; index < length; index += 1) {
      const code = text.charCodeAt(index);
      if (code > 0x7f) return false;
      buffer[at++] = code;
    }
    this.at = at;
    return true;
  }

  #utf8(text: string): void {
    const { buffer, at } = this;
    const isShort = text.length * 3 <= MAX_UINT16;
    const start = at + (isShort ? 3 : TEXT_HEAD_BYTES);
    const bytes = buffer.write(text, start, "utf8");
    buffer[at] = isShort ? 0xda : 0xdb;
    if (isShort) buffer.writeUInt16BE(bytes, at + 1);
    else buffer.writeUInt32BE(bytes, at + 1);
    this.at = start + bytes;
  }
}
