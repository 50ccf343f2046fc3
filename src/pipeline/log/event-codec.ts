import type { Provider } from "../../domain/enums.ts";
import type { EventRecord, HeaderList } from "../../domain/event.ts";
import type { ByteSlab } from "../../domain/byte-slab.ts";
import { decodeRecord, RECORD_PREFIX_BYTES, writeRecordPrefix } from "./codec.ts";
import { maxTextBytes, MessagePackWriter } from "./message-pack-writer.ts";

const HEAD_FIELDS = 16;
type Head = [
  id: string,
  orgId: string,
  endpointId: string,
  provider: Provider,
  receivedAtMs: number,
  method: string,
  path: string,
  query: string,
  headers: HeaderList,
  contentType: string | null,
  sourceIp: string,
  signatureValid: boolean,
  verificationError: string | null,
  reason: string,
  bodyStored: boolean,
  payloadSizeBytes: number,
];

/** Encodes an event in two pieces: everything but the body, and the body itself, which is not copied. */
export function encodeEventInPieces(event: EventRecord): readonly [head: Buffer, body: Uint8Array] {
  const block = Buffer.allocUnsafe(RECORD_PREFIX_BYTES + maxHeadBytes(event));
  const end = writeHead(event, block, RECORD_PREFIX_BYTES);
  writeRecordPrefix(block, 0, end - RECORD_PREFIX_BYTES);
  return [block.subarray(0, end), event.body];
}

/** Encodes an event in memory of its own, or in a piece of `slab`. */
export function encodeEvent(event: EventRecord, slab: ByteSlab | null = null): Buffer {
  const maxBytes = RECORD_PREFIX_BYTES + maxHeadBytes(event) + event.body.length;
  const { block, at } = slab?.reserve(maxBytes) ?? { block: Buffer.allocUnsafe(maxBytes), at: 0 };
  const headAt = at + RECORD_PREFIX_BYTES;
  const bodyAt = writeHead(event, block, headAt);
  writeRecordPrefix(block, at, bodyAt - headAt);
  block.set(event.body, bodyAt);
  const end = bodyAt + event.body.length;
  return slab?.keep(block, at, end) ?? block.subarray(at, end);
}

/** Room for the fields that are not texts, and for the heads of both arrays. */
const FIXED_HEAD_BYTES = 64;
const HEADER_ARRAY_BYTES = 1;

function maxHeadBytes(event: EventRecord): number {
  let bytes =
    FIXED_HEAD_BYTES +
    maxTextBytes(event.id) +
    maxTextBytes(event.orgId) +
    maxTextBytes(event.endpointId) +
    maxTextBytes(event.provider) +
    maxTextBytes(event.method) +
    maxTextBytes(event.path) +
    maxTextBytes(event.query) +
    maxTextBytes(event.contentType ?? "") +
    maxTextBytes(event.sourceIp) +
    maxTextBytes(event.verificationError ?? "") +
    maxTextBytes(event.reason);
  for (const [name, value] of event.headers)
    bytes += HEADER_ARRAY_BYTES + maxTextBytes(name) + maxTextBytes(value);
  return bytes;
}

/** Writes the fields in the order of `Head`, by hand: this is the costliest step of taking in a webhook. Returns where it ends. */
function writeHead(event: EventRecord, block: Buffer, at: number): number {
  const out = new MessagePackWriter(block, at);
  out.array(HEAD_FIELDS);
  out.text(event.id);
  out.text(event.orgId);
  out.text(event.endpointId);
  out.text(event.provider);
  out.count(event.receivedAtMs);
  out.text(event.method);
  out.text(event.path);
  out.text(event.query);
  out.array(event.headers.length);
  for (const header of event.headers) {
    out.array(2);
    out.text(header[0]);
    out.text(header[1]);
  }
  out.optionalText(event.contentType);
  out.text(event.sourceIp);
  out.flag(event.signatureValid);
  out.optionalText(event.verificationError);
  out.text(event.reason);
  out.flag(event.bodyStored);
  out.count(event.payloadSizeBytes);
  return out.at;
}

/** The body is a view into `value`. @throws {Error} on a foreign record */
export function decodeEvent(value: Uint8Array): EventRecord {
  const { head, rest } = decodeRecord(value);
  const [
    id,
    orgId,
    endpointId,
    provider,
    receivedAtMs,
    method,
    path,
    query,
    headers,
    contentType,
    sourceIp,
    signatureValid,
    verificationError,
    reason,
    bodyStored,
    payloadSizeBytes,
  ] = head as Head;
  return {
    id,
    orgId,
    endpointId,
    provider,
    receivedAtMs,
    method,
    path,
    query,
    headers,
    contentType,
    sourceIp,
    signatureValid,
    verificationError,
    reason,
    bodyStored,
    payloadSizeBytes,
    body: rest,
  };
}
