import { API_KEY_FORM } from "../domain/api-key.ts";
import { BASE_URL_FORM, isBaseUrl } from "../domain/base-url.ts";
import { failureCodeOf, toError } from "../domain/thrown.ts";
import { tlsAdvice } from "../domain/tls-advice.ts";
import { ApiError } from "./api-error.ts";

/** One request and its whole answer. */
interface ClientExchange {
  readonly method: string;
  /** Path and query, as requested. */
  readonly target: string;
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

export interface ClientOptions {
  /** Such as `http://localhost:8080`. */
  readonly baseUrl: string;
  readonly apiKey: string;
  /** Default: the global `fetch`, which refuses some ports, such as 6000 and 10080. */
  readonly fetch?: typeof fetch;
  /** Limit for one request, from connecting to the last byte. Default: 30 s. */
  readonly timeoutMs?: number;
  /** Sees every answer before it is parsed; what it throws reaches the caller. */
  readonly onResponse?: (exchange: ClientExchange) => void;
}

type Query = Readonly<Record<string, string | number | boolean | undefined>>;

export type SendRequest = (
  method: "GET" | "POST" | "PATCH" | "DELETE",
  path: string,
  parts?: { readonly query?: object; readonly body?: object },
) => Promise<unknown>;

const DEFAULT_TIMEOUT_MS = 30_000;
/** What Node's `fetch` says of a port that the Fetch standard blocks, such as 6000 and 10080. */
const BAD_PORT = "bad port";
/** White space at its end, as from a file, is not sent. */
const SENDABLE_KEY = /^[!-~]*[\t\r\n ]*$/;
/** URL parsing drops these segments, encoded or not, and the request would become a different one. */
const DOT_SEGMENT = /\/\.\.?(?:\/|$)/;

/** Makes the one function that talks to the service: it returns the parsed body, or undefined for 204. @throws {ApiError} */
export function makeSendRequest(options: ClientOptions): SendRequest {
  const { baseUrl, apiKey, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
  const send = options.fetch ?? fetch;
  const mistake = findMistake(options);
  return async (method, path, { query = {}, body } = {}) => {
    const target = path + encodeQuery(query as Query);
    if (DOT_SEGMENT.test(path))
      throw new ApiError({ status: 0, code: "invalid_id", message: `No id can be "." or ".."` });
    if (mistake !== null)
      throw new ApiError({ status: 0, code: "invalid_options", message: mistake });
    const json = body === undefined ? undefined : JSON.stringify(body);
    let response: Response;
    let text: string;
    try {
      response = await send(baseUrl.replace(/\/+$/, "") + target, {
        method,
        headers: {
          authorization: `Bearer ${apiKey}`,
          accept: "application/json",
          ...(json === undefined ? {} : { "content-type": "application/json" }),
        },
        ...(json === undefined ? {} : { body: json }),
        signal: AbortSignal.timeout(timeoutMs),
      });
      text = await response.text();
    } catch (cause) {
      const message = explainNoAnswer(baseUrl, timeoutMs, cause);
      throw new ApiError({ status: 0, code: "unreachable", message }, { cause });
    }
    const { status, headers } = response;
    options.onResponse?.({ method, target, status, headers, text });
    const answer = parse(text);
    if (!response.ok || (status !== 204 && !isEnvelope(answer)))
      throw toApiError(response, answer, baseUrl);
    return answer;
  };
}

/** Finds what `fetch` would refuse before it sends anything, of which it would only say that it failed. */
function findMistake({ baseUrl, apiKey }: ClientOptions): string | null {
  if (!isBaseUrl(baseUrl)) return `baseUrl must be ${BASE_URL_FORM}, such as http://localhost:8080`;
  return SENDABLE_KEY.test(apiKey) ? null : `apiKey must be ${API_KEY_FORM}`;
}

/** Goes by codes and names: messages may quote the headers, which hold the key. */
function explainNoAnswer(baseUrl: string, timeoutMs: number, thrown: unknown): string {
  const error = toError(thrown);
  if (error.cause instanceof Error && error.cause.message === BAD_PORT)
    return `fetch refuses the port in ${baseUrl}, which other protocols use: set RELAY_API_PORT to another one, or give the client another fetch`;
  const reason =
    error.name === "TimeoutError" ? `for ${timeoutMs / 1_000} s` : failureCodeOf(error);
  const advice = tlsAdvice(error)[0] ?? "is it running?";
  return `The relay at ${baseUrl} does not answer${reason === null ? "" : ` (${reason})`}: ${advice}`;
}

/** Encodes an id as one path segment. Half a surrogate pair, at which `encodeURIComponent` throws, is replaced as in a query. */
export function segment(id: string): string {
  return encodeURIComponent(id.replaceAll(/\p{Surrogate}/gu, "\uFFFD"));
}

function encodeQuery(query: Query): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== undefined) given.append(name, String(value));
  return given.size === 0 ? "" : `?${given.toString()}`;
}

function parse(text: string): unknown {
  if (text === "") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isEnvelope(json: unknown): boolean {
  return typeof json === "object" && json !== null && "data" in json;
}

function toApiError(response: Response, json: unknown, baseUrl: string): ApiError {
  const envelope = json as
    | { readonly error?: { readonly code?: string; readonly message?: string } }
    | undefined;
  const retryAfter = Number(response.headers.get("retry-after") ?? "none");
  return new ApiError({
    status: response.status,
    code: envelope?.error?.code ?? "unexpected_answer",
    message:
      envelope?.error?.message ??
      `HTTP ${response.status} without the envelope of the relay: is ${baseUrl} its management API?`,
    requestId: response.headers.get("x-request-id"),
    retryAfterSeconds: Number.isFinite(retryAfter) ? retryAfter : null,
  });
}
