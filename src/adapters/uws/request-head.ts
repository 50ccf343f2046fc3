import type { HttpRequest } from "uWebSockets.js";
import type { RequestHead } from "../../domain/incoming-request.ts";

export interface ReadHead {
  readonly head: RequestHead;
  /**
   * The connection must not be used again: the sender asks for that (RFC 9112, section 9.6), or it is not certain where the body ends,
   * since uWebSockets.js parses the framing of chunks loosely, and shows no header that follows one without a name.
   */
  readonly mustClose: boolean;
  /**
   * The sender waits for a 100 before it sends the body, and has not got one: uWebSockets.js answers `100-continue`, but not
   * `100-Continue` (RFC 9110, section 10.1.1: in any case), which Apache's mod_proxy and Java's HttpClient write.
   */
  readonly awaitsContinue: boolean;
  /** Why the request is malformed (RFC 9112), null when it is not. */
  readonly malformed: string | null;
}

const WITHOUT_BODY: ReadonlySet<string> = new Set(["GET", "HEAD"]);
const ANSWERED_EXPECTATION = "100-continue";
const CLOSE_OPTION = /(?:^|,)[ \t]*close[ \t]*(?:,|$)/i;

/** RFC 9110, section 5.6.2. */
const TOKEN = /^[\w!#$%&'*+.^`|~-]+$/;
/** `uri-host [ ":" port ]` of RFC 9112, section 3.2, with the characters that RFC 3986 allows. */
const HOST = /^(?:\[[\w.~!$&'()*+,;=:%-]+\]|(?:[\w.~!$&'()*+,;=-]|%[\da-f]{2})*)(?::\d*)?$/i;

/** The headers that say where a body ends and which host is meant, as they were met. */
interface Framing {
  contentLength: string | null;
  transferEncoding: string | null;
  hosts: number;
  closes: boolean;
  expectsContinue: boolean;
  malformed: string | null;
}

/**
 * Reads everything needed of a request while it can be read (only inside its handler), and checks what
 * uWebSockets.js lets pass: differing framing headers are how requests are smuggled past a proxy.
 */
export function readHead(request: HttpRequest, remoteAddress: string): ReadHead {
  const headers: [string, string][] = [];
  const framing: Framing = {
    contentLength: null,
    transferEncoding: null,
    hosts: 0,
    closes: false,
    expectsContinue: false,
    malformed: null,
  };
  request.forEach((name, value) => {
    headers.push([name, value]);
    note(framing, name, value);
  });
  const { contentLength, transferEncoding } = framing;
  const query = request.getQuery() as string | undefined;
  const method = request.getCaseSensitiveMethod();
  const head = {
    method,
    path: request.getUrl(),
    query: query ?? null,
    headers,
    remoteAddress,
    declaredBytes: transferEncoding === null ? Number(contentLength ?? 0) : null,
  };
  const hasLength = contentLength !== null || WITHOUT_BODY.has(method);
  const mustClose = framing.closes || transferEncoding !== null || !hasLength;
  return {
    head,
    mustClose,
    awaitsContinue: framing.expectsContinue && head.declaredBytes !== 0,
    malformed: TOKEN.test(method) ? framingError(framing) : "invalid method",
  };
}

function note(framing: Framing, name: string, value: string): void {
  switch (name) {
    case "content-length":
      if (framing.contentLength !== null) framing.malformed = "duplicate Content-Length";
      framing.contentLength = value;
      break;
    case "transfer-encoding":
      if (framing.transferEncoding !== null) framing.malformed = "duplicate Transfer-Encoding";
      framing.transferEncoding = value;
      break;
    case "host":
      framing.hosts += 1;
      if (!HOST.test(value)) framing.malformed = "invalid Host";
      break;
    case "connection":
      framing.closes ||= CLOSE_OPTION.test(value);
      break;
    case "expect":
      framing.expectsContinue ||=
        value !== ANSWERED_EXPECTATION && value.toLowerCase() === ANSWERED_EXPECTATION;
      break;
    default:
  }
}

function framingError(framing: Framing): string | null {
  const { contentLength, transferEncoding } = framing;
  if (framing.malformed !== null) return framing.malformed;
  if (framing.hosts !== 1) return "more than one Host";
  if (transferEncoding !== null) {
    if (contentLength !== null) return "Content-Length beside Transfer-Encoding";
    return transferEncoding.toLowerCase() === "chunked" ? null : "unknown Transfer-Encoding";
  }
  if (contentLength !== null && !/^\d{1,18}$/.test(contentLength)) return "invalid Content-Length";
  return null;
}
