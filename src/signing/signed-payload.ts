import { Buffer } from "node:buffer";

/** The parts of a request that a `signed_payload` template may name. */
const PLACEHOLDERS = ["body", "timestamp", "id", "method", "path"] as const;
export type Placeholder = (typeof PLACEHOLDERS)[number];

/** A template in pieces: literal bytes and placeholders, in order. */
export type TemplatePart =
  | { readonly kind: "literal"; readonly bytes: Uint8Array }
  | { readonly kind: "placeholder"; readonly name: Placeholder };

/** Null when the template names an unknown placeholder or leaves out the body, which would then be unsigned. */
export function parseTemplate(template: string): readonly TemplatePart[] | null {
  const parts: TemplatePart[] = [];
  let isBodySigned = false;
  for (const piece of template.split(/(\{[a-z_]*\})/)) {
    if (piece === "") continue;
    if (!piece.startsWith("{") || !piece.endsWith("}")) {
      parts.push({ kind: "literal", bytes: Buffer.from(piece, "utf8") });
      continue;
    }
    const name = PLACEHOLDERS.find((known) => `{${known}}` === piece);
    if (name === undefined) return null;
    if (name === "body") isBodySigned = true;
    parts.push({ kind: "placeholder", name });
  }
  return isBodySigned ? parts : null;
}

export function templateNames(parts: readonly TemplatePart[], name: Placeholder): boolean {
  return parts.some((part) => part.kind === "placeholder" && part.name === name);
}

export interface SignedParts {
  /** The bytes as received: never parsed and serialised again. */
  readonly body: Uint8Array;
  readonly timestamp: string;
  readonly id: string;
  readonly method: string;
  /** Path of the raw request target, without the query. */
  readonly path: string;
}

/** Feeds the signed bytes to a hash, piece by piece and without joining them. */
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

/** The path of an absolute URL as it was sent: `new URL` would normalise what the sender signed. */
export function rawPathOf(url: string): string {
  const authority = url.indexOf("://");
  const start = authority < 0 ? 0 : url.indexOf("/", authority + 3);
  if (start < 0) return "/";
  const end = url.slice(start).search(/[?#]/);
  return end < 0 ? url.slice(start) : url.slice(start, start + end);
}
