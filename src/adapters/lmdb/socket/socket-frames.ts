import { LOG_ERROR_CODES, LogError } from "../../../domain/log.ts";
import type { NewRecord, Position, Topic } from "../../../domain/log.ts";
import { TOPIC_IDS, topicOfId } from "../layout.ts";
import { messageOf } from "../../../domain/thrown.ts";

/**
 * What goes over the log's socket. Every frame: length of the rest (4), request id (4), rest.
 *
 *   hello (to the client, id 0)   partitions (2)
 *   append                        count (4), then per record: topic (1), partition or 0xffff (2),
 *                                 key length (2), value length (4), key, value
 *   answer, status 0              status (1), count (4), per record: partition (2), offset (6)
 *   answer, status 1              status (1), code as text, newline, message
 */
const FRAME_HEAD_BYTES = 8;
const RECORD_HEAD_BYTES = 9;
const BY_KEY = 0xffff;

export function encodeHello(partitions: number): Buffer {
  const frame = newFrame(0, 2);
  frame.writeUInt16BE(partitions, FRAME_HEAD_BYTES);
  return frame;
}

export function encodeAppend(id: number, records: readonly NewRecord[]): Buffer {
  const keys = records.map((record) => Buffer.from(record.key));
  let bytes = 4;
  for (const [index, record] of records.entries())
    bytes += RECORD_HEAD_BYTES + keys[index]!.length + record.value.length;
  const frame = newFrame(id, bytes);
  frame.writeUInt32BE(records.length, FRAME_HEAD_BYTES);
  let at = FRAME_HEAD_BYTES + 4;
  for (const [index, record] of records.entries()) {
    const key = keys[index]!;
    frame[at] = TOPIC_IDS[record.topic];
    frame.writeUInt16BE(record.partition ?? BY_KEY, at + 1);
    frame.writeUInt16BE(key.length, at + 3);
    frame.writeUInt32BE(record.value.length, at + 5);
    at += RECORD_HEAD_BYTES;
    frame.set(key, at);
    frame.set(record.value, at + key.length);
    at += key.length + record.value.length;
  }
  return frame;
}

/** Returns records whose values are views into `body`. */
export function decodeAppend(body: Buffer): NewRecord[] {
  const count = body.readUInt32BE(0);
  const records: NewRecord[] = [];
  let at = 4;
  for (let index = 0; index < count; index++) {
    const topic: Topic = topicOfId(body[at]!);
    const partition = body.readUInt16BE(at + 1);
    const valueAt = at + RECORD_HEAD_BYTES + body.readUInt16BE(at + 3);
    const end = valueAt + body.readUInt32BE(at + 5);
    const key = body.toString("utf8", at + RECORD_HEAD_BYTES, valueAt);
    const value = body.subarray(valueAt, end);
    records.push(partition === BY_KEY ? { topic, key, value } : { topic, key, value, partition });
    at = end;
  }
  return records;
}

export function encodePositions(id: number, positions: readonly Position[]): Buffer {
  const frame = newFrame(id, 5 + positions.length * 8);
  frame.writeUInt32BE(positions.length, FRAME_HEAD_BYTES + 1);
  let at = FRAME_HEAD_BYTES + 5;
  for (const { partition, offset } of positions) {
    frame.writeUInt16BE(partition, at);
    frame.writeUIntBE(offset, at + 2, 6);
    at += 8;
  }
  return frame;
}

export function encodeFailure(id: number, error: unknown): Buffer {
  const code = error instanceof LogError ? error.code : "log_unavailable";
  const text = Buffer.from(`${code}\n${messageOf(error)}`);
  const frame = newFrame(id, 1 + text.length);
  frame[FRAME_HEAD_BYTES] = 1;
  frame.set(text, FRAME_HEAD_BYTES + 1);
  return frame;
}

export function decodeAnswer(body: Buffer): readonly Position[] | LogError {
  if (body[0] === 1) {
    const [code, message] = body.toString("utf8", 1).split("\n", 2);
    const known = LOG_ERROR_CODES.find((candidate) => candidate === code);
    return new LogError(known ?? "log_unavailable", message ?? "");
  }
  return Array.from({ length: body.readUInt32BE(1) }, (_, index) => ({
    partition: body.readUInt16BE(5 + index * 8),
    offset: body.readUIntBE(7 + index * 8, 6),
  }));
}

/** Cuts a stream of chunks into frames, without copying a big frame once per chunk. */
export class FrameSplitter {
  readonly #onFrame: (id: number, body: Buffer) => void;
  #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(onFrame: (id: number, body: Buffer) => void) {
    this.#onFrame = onFrame;
  }

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    let wanted = this.#wanted();
    while (this.#bytes >= wanted) {
      const all = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks);
      this.#chunks = [all];
      wanted = this.#wanted();
      if (this.#bytes < wanted) break;
      this.#chunks = [all.subarray(wanted)];
      this.#bytes -= wanted;
      this.#onFrame(all.readUInt32BE(4), all.subarray(FRAME_HEAD_BYTES, wanted));
      wanted = this.#wanted();
    }
  }

  #wanted(): number {
    const first = this.#chunks[0];
    return first !== undefined && first.length >= 4
      ? Math.max(FRAME_HEAD_BYTES, 4 + first.readUInt32BE(0))
      : FRAME_HEAD_BYTES;
  }
}

function newFrame(id: number, bodyBytes: number): Buffer {
  const frame = Buffer.allocUnsafe(FRAME_HEAD_BYTES + bodyBytes);
  frame.writeUInt32BE(4 + bodyBytes, 0);
  frame.writeUInt32BE(id, 4);
  // The status of an answer: 0 unless it is set.
  frame[FRAME_HEAD_BYTES] = 0;
  return frame;
}
