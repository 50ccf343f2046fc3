import { Buffer } from "node:buffer";

/** The parts of a request that a `signed_payload` template may name. */
const PLACEHOLDERS = ["body", "timestamp", "id", "method", "path"] as const;
export type Placeholder = (typeof PLACEHOLDERS)[number];

/** One piece of a template: literal bytes or a placeholder. */
export type TemplatePart =
  | { readonly kind: "literal"; readonly bytes: Uint8Array }
  | { readonly kind: "placeholder"; readonly name: Placeholder };

/**
 * Parses a template. Returns null when it names an unknown placeholder, names one twice, or leaves out the body, which
 * would then be unsigned. No sender signs its body twice, and hashing it a thousand times would block a thread for all
 * other endpoints.
 */
export function parseTemplate(template: string): readonly TemplatePart[] | null {
  const parts: TemplatePart[] = [];
  for (const piece of template.split(/(\{[a-z_]*\})/)) {
    if (piece === "") continue;
    if (!piece.startsWith("{") || !piece.endsWith("}")) {
      parts.push({ kind: "literal", bytes: Buffer.from(piece, "utf8") });
      continue;
    }
    const name = PLACEHOLDERS.find((known) => `{${known}}` === piece);
    if (name === undefined || templateNames(parts, name)) return null;
    parts.push({ kind: "placeholder", name });
  }
  return templateNames(parts, "body") ? parts : null;
}

export function templateNames(parts: readonly TemplatePart[], name: Placeholder): boolean {
  return parts.some((part) => part.kind === "placeholder" && part.name === name);
}

export interface SignedParts {
  /** The bytes as received, never parsed and serialised again. */
  readonly body: Uint8Array;
  readonly timestamp: string;
  readonly id: string;
  readonly method: string;
  /** Path of the raw request target, without the query. */
  readonly path: string;
}

/** Feeds the signed bytes to a hash piece by piece, without joining them. */
export function feedSignedPayload(
  parts: readonly TemplatePart[],
  values: SignedParts,
  update: (bytes: Uint8Array) => void,
): void {
  for (const part of parts) {
    if (part.kind === "literal") update(part.bytes);
    else if (part.name === "body") update(values.body);
    else update(Buffer.from(values[part.name], "utf8"));
  }
}

/** Returns an upper bound in bytes: a character takes at most three. */
export function signedPayloadBytes(parts: readonly TemplatePart[], values: SignedParts): number {
  let bytes = 0;
  for (const part of parts) {
    if (part.kind === "literal") bytes += part.bytes.byteLength;
    else if (part.name === "body") bytes += values.body.byteLength;
    else bytes += values[part.name].length * 3;
  }
  return bytes;
}

/** Writes the signed bytes into `out`, which must have room for them, and returns where they end. */
export function writeSignedPayload(
  parts: readonly TemplatePart[],
  values: SignedParts,
  out: Buffer,
  start: number,
): number {
  let at = start;
  for (const part of parts) {
    if (part.kind === "literal") {
      out.set(part.bytes, at);
      at += part.bytes.byteLength;
    } else if (part.name === "body") {
      out.set(values.body, at);
      at += values.body.byteLength;
    } else at += out.write(values[part.name], at, "utf8");
  }
  return at;
}

/** Returns the path of an absolute URL exactly as sent: `new URL` would normalise what the sender signed. */
export function rawPathOf(url: string): string {
  const authority = url.indexOf("://");
  const end = url.search(/[?#]/);
  const target = end < 0 ? url : url.slice(0, end);
  const start = authority < 0 ? 0 : target.indexOf("/", authority + 3);
  return start < 0 ? "/" : target.slice(start);
}
