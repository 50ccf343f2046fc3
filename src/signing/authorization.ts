import type { HeaderList } from "../domain/event.ts";
import type { RefusalReason, VerificationResult } from "../domain/verification.ts";
import { findHeader } from "./request-header.ts";
import { refuse } from "./verdict.ts";

export type AuthorizationLookup =
  | { readonly ok: true; readonly credentials: string }
  | { readonly ok: false; readonly refusal: VerificationResult };

interface Words {
  readonly missing: RefusalReason;
  readonly duplicate: RefusalReason;
  readonly malformed: RefusalReason;
}

const AUTHORIZATION_WORDS: Words = {
  missing: "missing_authorization",
  duplicate: "duplicate_authorization",
  malformed: "malformed_authorization",
};

/**
 * Splits `<scheme> <credentials>` (RFC 9110 §11.6.2: the scheme is case-insensitive, one or more spaces). With scheme
 * "", the whole value is the credentials.
 */
export function readAuthorization(
  headers: HeaderList,
  header: string,
  scheme: string,
  words: Words = AUTHORIZATION_WORDS,
): AuthorizationLookup {
  const found = findHeader(headers, header.toLowerCase());
  if (found.kind === "none") {
    const hint = "is the sender configured to send it to this URL?";
    return { ok: false, refusal: refuse(words.missing, `${header} is missing: ${hint}`) };
  }
  if (found.kind === "many") {
    const message = `${header} was sent more than once: the sender must send it exactly once.`;
    return { ok: false, refusal: refuse(words.duplicate, message) };
  }
  const credentials = scheme === "" ? found.value : afterScheme(found.value, scheme);
  if (credentials !== null && credentials !== "") return { ok: true, credentials };
  const form = scheme === "" ? "the bare credentials" : `"${scheme} <credentials>"`;
  const message = `${header} must have the form ${form}: check verification_config.scheme against what the sender sends.`;
  return { ok: false, refusal: refuse(words.malformed, message) };
}

function afterScheme(value: string, scheme: string): string | null {
  if (value.slice(0, scheme.length).toLowerCase() !== scheme.toLowerCase()) return null;
  let index = scheme.length;
  while (value[index] === " ") index += 1;
  return index === scheme.length ? null : value.slice(index);
}
