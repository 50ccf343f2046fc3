import type { EndpointConfig } from "../../domain/endpoint.ts";
import type { HeaderList } from "../../domain/event.ts";
import { CREDENTIAL_HEADERS, REDACTED } from "../../domain/redacted.ts";
import { readToken } from "../../signing/jwt-token.ts";

/** Anchored at both ends: trying the pattern at every character of a long value takes half a second. */
const ONE_JWT = /^((?:[\w-]+ +)?([\w-]+\.[\w-]*\.))[\w-]*$/;

/** Which headers of an endpoint's requests carry credentials (names in lower case). */
export interface RedactionRule {
  readonly names: ReadonlySet<string>;
  /** The header whose JWT keeps its header and claims, so that an operator can read who sent it. */
  readonly jwtHeader: string | null;
}

export function makeRedactionRule(
  endpoint: Pick<EndpointConfig, "method" | "config">,
): RedactionRule {
  const { method, config } = endpoint;
  const configured =
    typeof config["header"] === "string" && config["header"] !== ""
      ? config["header"].toLowerCase()
      : "authorization";
  const carriesCredential =
    method === "bearer_token" || method === "basic_auth" || method === "jwt";
  return {
    names: carriesCredential ? new Set([...CREDENTIAL_HEADERS, configured]) : CREDENTIAL_HEADERS,
    jwtHeader: method === "jwt" ? configured : null,
  };
}

/** Returns the headers as they may be stored: the same list when there is nothing to hide. */
export function redactHeaders(headers: HeaderList, rule: RedactionRule): HeaderList {
  for (const [name] of headers) {
    if (rule.names.has(name.toLowerCase())) {
      return headers.map((header) => redactHeader(header, rule));
    }
  }
  return headers;
}

function redactHeader(header: HeaderList[number], rule: RedactionRule): HeaderList[number] {
  const name = header[0].toLowerCase();
  if (!rule.names.has(name)) return header;
  return [header[0], name === rule.jwtHeader ? cutSignature(header[1]) : REDACTED];
}

/**
 * Turns `Bearer a.b.c` into `Bearer a.b.[redacted]`. Hides all of a value that is not a single JWT with an optional scheme,
 * such as an API key with two dots in it.
 */
function cutSignature(value: string): string {
  const [, unsigned = "", token = ""] = ONE_JWT.exec(value) ?? [];
  return readToken(token) === null ? REDACTED : unsigned + REDACTED;
}
