import { parseDateTime } from "../api/date-time.ts";
import { nearestName } from "../config/nearest-name.ts";
import { PROVIDERS, VERIFICATION_METHODS } from "../domain/enums.ts";
import type { VerificationMethod, Provider } from "../domain/enums.ts";
import type { HeaderList } from "../domain/event.ts";
import { isIpAddress, parseCidrs } from "../domain/ip.ts";
import { isRecord } from "../domain/is-record.ts";
import { trimOptionalSpace } from "../domain/optional-space.ts";
import type { VerificationRequest } from "../domain/verification.ts";
import { presetOf } from "../signing/presets.ts";
import { decodeStrict } from "../signing/strict-bytes.ts";

/** Thrown for a line that is not a request; the message says which field is wrong. */
export class RequestLineError extends Error {}

export type Fields = Readonly<Record<string, unknown>>;

const REQUEST_FIELDS = [
  "id",
  "provider",
  "verification_method",
  "secret",
  "config",
  "verification_config",
  "url",
  "method",
  "headers",
  "body_base64",
  "now",
  "remote_addr",
  "trusted_proxies",
];
/** Other fields that an entry of the vectors has: its origin, and what is expected of it. `body` has an answer of its own. */
const OTHER_FIELDS = new Set(["kind", "origin", "source", "note", "expect", "body"]);

/** What a line may leave out. */
export interface LineDefaults {
  readonly nowMs: () => number;
  readonly trustedProxies?: readonly string[];
}

/** Reads a line as a JSON object. @throws {RequestLineError} */
export function parseLine(line: string): Fields {
  let value: unknown;
  try {
    // Files may begin with a byte order mark.
    value = JSON.parse(line.replace(/^\uFEFF/, ""));
  } catch {
    throw new RequestLineError("the line is not JSON");
  }
  if (isRecord(value)) return value;
  throw new RequestLineError("the line must be a JSON object");
}

function refuseUnknown(fields: Fields): void {
  for (const name of Object.keys(fields)) {
    if (REQUEST_FIELDS.includes(name) || OTHER_FIELDS.has(name)) continue;
    const meant = nearestName(name, REQUEST_FIELDS);
    const advice = meant === null ? "see relay verify --help" : `did you mean ${meant}?`;
    throw new RequestLineError(`${name}: unknown field, ${advice}`);
  }
}

/** Reads the request that a line describes. @throws {RequestLineError} */
export function readRequest(fields: Fields, defaults: LineDefaults): VerificationRequest {
  refuseUnknown(fields);
  const provider = PROVIDERS.find((known) => known === (fields["provider"] ?? "custom"));
  if (provider === undefined)
    throw new RequestLineError(`provider: one of ${PROVIDERS.join(", ")}`);
  if (fields["body"] !== undefined && fields["body_base64"] === undefined)
    throw new RequestLineError("body: give the raw bytes as body_base64");
  const config = fields["config"] ?? fields["verification_config"] ?? {};
  if (!isRecord(config)) throw new RequestLineError("config: must be an object");
  const method = readMethod(fields["verification_method"], provider);
  return {
    provider,
    method,
    methodIsExplicit: isExplicit(provider, fields, config),
    secret: readText(fields, "secret", null),
    config,
    url: readUrl(fields, method, config),
    httpMethod: readText(fields, "method", "POST"),
    headers: readHeaders(fields["headers"] ?? {}),
    body: readBody(fields["body_base64"] ?? ""),
    nowMs: readNow(fields["now"] ?? null, defaults.nowMs),
    remoteAddress: readAddress(fields, method),
    trustedProxies: readProxies(fields["trusted_proxies"] ?? defaults.trustedProxies ?? []),
  };
}

function readMethod(value: unknown, provider: Provider): VerificationMethod {
  const method =
    value === undefined || value === null
      ? presetOf(provider)?.method
      : VERIFICATION_METHODS.find((known) => known === value);
  if (method !== undefined) return method;
  throw new RequestLineError(`verification_method: one of ${VERIFICATION_METHODS.join(", ")}`);
}

/**
 * Returns whether the method was chosen explicitly. A line may name the method even where the endpoint left it to the
 * preset. The preset is meant unless the method differs from the provider's, or the configuration names the header to
 * look at, which a preset has and an explicit method needs.
 */
function isExplicit(provider: Provider, fields: Fields, config: Fields): boolean {
  const preset = presetOf(provider);
  if (preset === null) return true;
  const named = fields["verification_method"] ?? null;
  if (named === null) return false;
  return named !== preset.method || config["header"] !== undefined;
}

function readText<Fallback>(fields: Fields, name: string, fallback: Fallback): string | Fallback {
  const value = fields[name];
  if (value === undefined || value === null) return fallback;
  if (typeof value === "string") return value;
  throw new RequestLineError(`${name}: must be a text`);
}

/** Reads the URL. The ingest always knows it; without it, verification would blame the secret. */
function readUrl(fields: Fields, method: VerificationMethod, config: Fields): string {
  const url = readText(fields, "url", "");
  if (url !== "" || !signsUrl(method, config)) return url;
  throw new RequestLineError(
    "url: must be the endpoint's, with the query that the request had: it is part of what is signed",
  );
}

function signsUrl(method: VerificationMethod, config: Fields): boolean {
  switch (method) {
    case "twilio_signature":
      return config["url"] === undefined;
    case "hmac_sha256":
    case "hmac_sha1":
      return String(config["signed_payload"]).includes("{path}");
    case "jwt":
      return config["url_hash_claim"] !== undefined;
    case "bearer_token":
    case "basic_auth":
    case "ip_allowlist":
    case "none":
      return false;
    default:
      return method satisfies never;
  }
}

function readTexts(value: unknown, name: string): readonly string[] {
  if (Array.isArray(value) && value.every((entry) => typeof entry === "string")) return value;
  throw new RequestLineError(`${name}: must be a list of texts`);
}

/**
 * Reads the headers: an object from names to a value or a list of values, or the list of an event's detail, of objects with `name` and `value`.
 * Blanks around a value are not part of it (RFC 9110, section 5.5): a server takes them away.
 */
function readHeaders(value: unknown): HeaderList {
  const lines = Array.isArray(value) ? value.map(readHeader) : readHeaderObject(value);
  return lines.map(([name, text]) => [name, trimOptionalSpace(text)]);
}

function readHeader(value: unknown, index: number): HeaderList[number] {
  const { name, value: text } = isRecord(value) ? value : {};
  if (typeof name === "string" && typeof text === "string") return [name, text];
  throw new RequestLineError(`headers.${index}: must be an object with the texts name and value`);
}

function readHeaderObject(value: unknown): HeaderList {
  if (!isRecord(value))
    throw new RequestLineError("headers: must be an object, or a list of name and value");
  return Object.entries(value).flatMap(([name, values]) =>
    readTexts(Array.isArray(values) ? values : [values], `headers.${name}`).map(
      (text) => [name, text] as const,
    ),
  );
}

function readBody(value: unknown): Uint8Array {
  const bytes = typeof value === "string" ? decodeStrict(value, "base64") : null;
  if (bytes !== null) return bytes;
  throw new RequestLineError("body_base64: must be base64");
}

/** Reads the source address. A server always knows it; without it, verification would blame the proxies. */
function readAddress(fields: Fields, method: VerificationMethod): string {
  const address = readText(fields, "remote_addr", "");
  const [withoutZone = ""] = address.split("%", 1);
  if (method !== "ip_allowlist" || isIpAddress(withoutZone)) return address;
  throw new RequestLineError("remote_addr: must be the IP address that the request came from");
}

function readProxies(value: unknown): readonly string[] {
  const cidrs = readTexts(value, "trusted_proxies");
  try {
    parseCidrs(cidrs);
    return cidrs;
  } catch (error) {
    throw new RequestLineError(`trusted_proxies: ${(error as Error).message}`);
  }
}

const WITH_ZONE = /(?:Z|[+-]\d\d:\d\d)$/i;

/** Reads the time. One without a zone is UTC, wherever this runs. */
function readNow(value: unknown, nowMs: () => number): number {
  if (value === null) return nowMs();
  const text = typeof value === "string" ? value : "";
  const parsed = parseDateTime(WITH_ZONE.test(text) ? text : `${text}Z`);
  if (parsed !== null) return parsed;
  throw new RequestLineError(
    "now: must be a time such as 2026-11-20T12:00:00Z, or null for the clock",
  );
}
