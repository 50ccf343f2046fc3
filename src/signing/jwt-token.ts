import { Buffer } from "node:buffer";
import { decodeUtf8 } from "../domain/decode-utf8.ts";
import { isRecord } from "../domain/is-record.ts";
import { decodeStrict } from "./strict-bytes.ts";

export type JsonObject = Readonly<Record<string, unknown>>;

/** A parsed compact JWT; none of it is trusted yet. */
export interface JwtToken {
  readonly header: JsonObject;
  readonly claims: JsonObject;
  /** The ASCII bytes that were signed. */
  readonly input: Uint8Array;
  readonly signature: Uint8Array;
}

/**
 * Parses a compact JWT (RFC 7515 §3.1, RFC 7519 §7.2). Returns null unless it is three parts of canonical base64url,
 * two of them JSON objects.
 */
export function readToken(text: string): JwtToken | null {
  const parts = text.split(".");
  const [headerPart, claimsPart, signaturePart] = parts;
  if (parts.length !== 3 || headerPart === undefined) return null;
  if (claimsPart === undefined || signaturePart === undefined || text.includes("=")) return null;
  const header = readObject(headerPart);
  const claims = readObject(claimsPart);
  const signature = decodeStrict(signaturePart, "base64url");
  if (header === null || claims === null || signature === null) return null;
  return { header, claims, input: Buffer.from(`${headerPart}.${claimsPart}`, "ascii"), signature };
}

function readObject(part: string): JsonObject | null {
  const bytes = decodeStrict(part, "base64url");
  const text = bytes === null ? null : decodeUtf8(bytes);
  if (text === null) return null;
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : null;
  } catch {
    return null;
  }
}
