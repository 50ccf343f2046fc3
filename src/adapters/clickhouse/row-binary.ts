/**
 * Writes rows in ClickHouse's RowBinary: values of a row one after the other, little endian, strings and arrays
 * behind their length (LEB128). Payloads are copied as they are: no escaping, any bytes.
 * https://clickhouse.com/docs/interfaces/formats/RowBinary
 */
export class RowBinaryWriter {
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

  bool(value: boolean): void {
    this.uint8(value ? 1 : 0);
  }

  uint8(value: number): void {
    this.#reserve(1);
    this.#buffer[this.#length] = value;
    this.#length += 1;
  }

  uint16(value: number): void {
    this.#reserve(2);
    this.#length = this.#buffer.writeUInt16LE(value, this.#length);
  }

  uint32(value: number): void {
    this.#reserve(4);
    this.#length = this.#buffer.writeUInt32LE(value, this.#length);
  }

  /** UInt64, Int64 or the ticks of a DateTime64; exact up to 2^53. */
  uint64(value: number): void {
    this.#reserve(8);
    this.#length = this.#buffer.writeUInt32LE(value % 0x1_0000_0000, this.#length);
    this.#length = this.#buffer.writeUInt32LE(Math.floor(value / 0x1_0000_0000), this.#length);
  }

  length(value: number): void {
    this.#reserve(8);
    let rest = value;
    while (rest >= 0x80) {
      this.#buffer[this.#length] = (rest % 0x80) | 0x80;
      this.#length += 1;
      rest = Math.floor(rest / 0x80);
    }
    this.#buffer[this.#length] = rest;
    this.#length += 1;
  }

  string(text: string): void {
    const sizeBytes = Buffer.byteLength(text);
    this.length(sizeBytes);
    this.#reserve(sizeBytes);
    this.#length += this.#buffer.write(text, this.#length, "utf8");
  }

  binary(data: Uint8Array): void {
    this.length(data.length);
    this.#reserve(data.length);
    this.#buffer.set(data, this.#length);
    this.#length += data.length;
  }

  nullableString(text: string | null): void {
    this.uint8(text === null ? 1 : 0);
    if (text !== null) this.string(text);
  }

  nullableUint64(value: number | null): void {
    this.uint8(value === null ? 1 : 0);
    if (value !== null) this.uint64(value);
  }

  strings(values: readonly string[]): void {
    this.length(values.length);
    for (const value of values) this.string(value);
  }

  #reserve(sizeBytes: number): void {
    if (this.#length + sizeBytes <= this.#buffer.length) return;
    const bigger = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.#length + sizeBytes));
    this.#buffer.copy(bigger, 0, 0, this.#length);
    this.#buffer = bigger;
  }
}
