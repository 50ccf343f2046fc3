import { MAX_FIELD_LENGTH } from "../../domain/searchable-leaf.ts";

const DOT = 0x2e;
const BACKSLASH = 0x5c;
const MAX_UTF8_BYTES = 4;

/** A container that is being read and whose path can be asked for. */
interface Frame {
  readonly isObject: boolean;
  /** Size of its path, which has `characters` code points. */
  readonly sizeBytes: number;
  readonly characters: number;
  index: number;
}

/**
 * The containers around a value, and the path to it in UTF-8 (see searchable-leaf.ts). Containers whose path cannot be asked
 * for take a byte each: a payload may nest ten million of them.
 */
export class LeafPath {
  readonly bytes = Buffer.allocUnsafe(MAX_FIELD_LENGTH * MAX_UTF8_BYTES);
  sizeBytes = 0;
  /** False once the path is too long to be asked for, and so for all inside it. */
  isAskable = true;
  #characters = 0;
  readonly #frames: Frame[] = [];
  /** Containers inside the innermost frame: 1 for an object, 0 for an array. */
  #beyond = new Uint8Array(0);
  #beyondCount = 0;

  /** Whether the innermost container's own path cannot be asked for, and so none of its keys. */
  get isBeyond(): boolean {
    return this.#beyondCount > 0;
  }

  get isAtRoot(): boolean {
    return this.#frames.length === 0;
  }

  /** Whether the innermost container is an object. */
  get isInObject(): boolean {
    return this.#beyondCount > 0
      ? this.#beyond[this.#beyondCount - 1] === 1
      : this.#frames.at(-1)!.isObject;
  }

  /** Moves to the value that is the whole text. */
  toRoot(): void {
    this.sizeBytes = 0;
    this.#characters = 0;
    this.isAskable = true;
    this.#frames.length = 0;
    this.#beyondCount = 0;
    // A hostile payload may have grown it to megabytes.
    if (this.#beyond.length > 0) this.#beyond = new Uint8Array(0);
  }

  /** Enters the container at this path. */
  push(isObject: boolean): void {
    if (this.isAskable) {
      const { sizeBytes } = this;
      this.#frames.push({ isObject, sizeBytes, characters: this.#characters, index: 0 });
      return;
    }
    if (this.#beyondCount === this.#beyond.length) {
      const longer = new Uint8Array(Math.max(64, this.#beyond.length * 2));
      longer.set(this.#beyond);
      this.#beyond = longer;
    }
    this.#beyond[this.#beyondCount] = isObject ? 1 : 0;
    this.#beyondCount += 1;
  }

  /** Leaves the innermost container. */
  pop(): void {
    if (this.#beyondCount === 0) this.#frames.pop();
    else this.#beyondCount -= 1;
  }

  /**
   * Moves to a key of the innermost container, `characters` code points long with JSON's escapes resolved and the path's still
   * to come.
   */
  toKey(key: Uint8Array, from: number, end: number, characters: number): void {
    let escaped = characters;
    if (escaped <= MAX_FIELD_LENGTH)
      for (let index = from; index < end; index += 1) if (isEscaped(key[index]!)) escaped += 1;
    if (!this.#begin(escaped)) return;
    for (let index = from; index < end; index += 1) {
      const byte = key[index]!;
      if (isEscaped(byte)) this.bytes[this.sizeBytes++] = BACKSLASH;
      this.bytes[this.sizeBytes++] = byte === 0 ? 0x30 : byte;
    }
  }

  /** Moves to a key that is too long to be asked for. */
  toTooLong(): void {
    this.#begin(Infinity);
  }

  /** Moves to the next element of the innermost container, an array. */
  toNextIndex(): void {
    if (this.#beyondCount > 0) return;
    const frame = this.#frames.at(-1)!;
    const index = String(frame.index);
    frame.index += 1;
    if (!this.#begin(index.length)) return;
    for (let at = 0; at < index.length; at += 1)
      this.bytes[this.sizeBytes++] = index.charCodeAt(at);
  }

  /** Starts a key of `characters` code points after the innermost container's path. Returns false when that makes it too long. */
  #begin(characters: number): boolean {
    const frame = this.#beyondCount > 0 ? undefined : this.#frames.at(-1);
    this.isAskable = false;
    if (frame === undefined) return false;
    const isFirst = this.#frames.length === 1;
    const all = isFirst ? characters : frame.characters + 1 + characters;
    if (all > MAX_FIELD_LENGTH) return false;
    this.isAskable = true;
    this.#characters = all;
    this.sizeBytes = frame.sizeBytes;
    if (!isFirst) this.bytes[this.sizeBytes++] = DOT;
    return true;
  }
}

function isEscaped(byte: number): boolean {
  return byte === DOT || byte === BACKSLASH || byte === 0;
}
