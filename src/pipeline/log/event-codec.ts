import type { Provider } from "../../domain/enums.ts";
import type { EventRecord, HeaderList } from "../../domain/event.ts";
import { decodeRecord, encodeRecord } from "./codec.ts";

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

export function encodeEvent(event: EventRecord): Buffer {
  const head: Head = [
    event.id,
    event.orgId,
    event.endpointId,
    event.provider,
    event.receivedAtMs,
    event.method,
    event.path,
    event.query,
    event.headers,
    event.contentType,
    event.sourceIp,
    event.signatureValid,
    event.verificationError,
    event.reason,
    event.bodyStored,
    event.payloadSizeBytes,
  ];
  return encodeRecord(head, event.body);
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
