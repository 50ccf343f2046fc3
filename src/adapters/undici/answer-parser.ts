import type { Socket } from "node:net";
import { errors } from "undici";

const CONTINUE = 100;
const PROCESSING = 102;
/** Returned from a callback, this ends llhttp's run through what has been read. */
const STOP = -1;
const MAX_HEADERS = 1_000;
/**
 * Bounds on an answer besides its content: status lines, headers, interim answers, chunk framing. Nothing in undici counts all of it.
 * A chunk of one byte has five or six more.
 */
const MAX_OVERHEAD_BYTES = 64 * 1024;
const MAX_OVERHEAD_PER_BYTE = 8;

/** What surrounds the content of an answer has no end, whatever the content is. */
export class OverheadError extends Error {
  readonly code = "overhead";

  constructor() {
    super("too many bytes beside the content of the answer");
    this.name = "OverheadError";
  }
}

/** Parts of undici's own parser, as it calls them for llhttp (`lib/dispatcher/client-h1.js`). */
interface Parser {
  readonly statusCode: number;
  readonly headers: readonly Buffer[];
  shouldKeepAlive: boolean;
  execute: (chunk: Buffer) => void;
  onHeaderField: (bytes: Buffer) => number;
  onHeaderValue: (bytes: Buffer) => number;
  onHeadersComplete: (status: number, ...rest: unknown[]) => number;
  onBody: (bytes: Buffer) => number;
  onMessageComplete: () => number;
}

/**
 * Bounds what undici reads of an answer, of which its parser bounds only the names and values of headers, and ends it there:
 *
 * - Headers beyond their bounds end the run through what has been read. By itself undici destroys the socket and goes on, with an
 *   error for each: 64,000 headers of one letter take half a second of the process, and many such answers at once take all of it.
 * - So do bytes that are not content: endless reason phrases, empty lines, chunk extensions and white space are read as fast as they come.
 * - A `100 Continue` that was not asked for is skipped, as a client has to (RFC 9110 section 15.2) and as the other interim answers
 *   are: undici would break off the connection, and the delivery that the receiver took would be made again.
 * - A refusal that comes before the request is out closes the connection: the next request would wait behind the rest of this one.
 * - So does the first answer that ends at `closesAtMs` (monotonic) or later: a connection that never rests would otherwise last as
 *   long as the receiver's process, whatever address its name has by then.
 *
 * The socket has its parser as soon as the connector has handed it over. Call this no later: with TLS 1.2 an answer may come in
 * the packet that ends the handshake.
 */
export function guardAnswers(socket: Socket, closesAtMs: number): void {
  const parser = parserOf(socket);
  if (parser !== null) guard(parser, socket, closesAtMs);
}

function guard(parser: Parser, socket: Socket, closesAtMs: number): void {
  const { execute, onHeaderField, onHeaderValue, onHeadersComplete, onBody, onMessageComplete } =
    parser;
  let readBytes = 0;
  let contentBytes = 0;

  const orStop = (result: number): number => {
    if (parser.headers.length > MAX_HEADERS * 2) socket.destroy(new errors.HeadersOverflowError());
    return socket.destroyed ? STOP : result;
  };
  parser.onHeaderField = (bytes) => orStop(onHeaderField.call(parser, bytes));
  parser.onHeaderValue = (bytes) => orStop(onHeaderValue.call(parser, bytes));
  parser.onHeadersComplete = (status, ...rest) =>
    onHeadersComplete.call(parser, status === CONTINUE ? PROCESSING : status, ...rest);
  parser.onBody = (bytes) => {
    contentBytes += bytes.length;
    return onBody.call(parser, bytes);
  };
  parser.onMessageComplete = () => {
    const { statusCode } = parser;
    if (statusCode >= 200) [readBytes, contentBytes] = [0, 0];
    const isUnread = statusCode >= 300 && socket.writableLength > 0;
    if (isUnread || performance.now() >= closesAtMs) parser.shouldKeepAlive = false;
    return onMessageComplete.call(parser);
  };
  parser.execute = (chunk) => {
    // What was read before the socket was destroyed is still handed out.
    if (socket.destroyed) return;
    readBytes += chunk.length;
    execute.call(parser, chunk);
    const most = MAX_OVERHEAD_BYTES + contentBytes * MAX_OVERHEAD_PER_BYTE;
    if (readBytes - contentBytes > most) socket.destroy(new OverheadError());
  };
}

function parserOf(socket: Socket): Parser | null {
  const key = Object.getOwnPropertySymbols(socket).find(
    ({ description }) => description === "parser",
  );
  const parser: unknown = key === undefined ? null : Reflect.get(socket, key);
  return isParser(parser) ? parser : null;
}

function isParser(value: unknown): value is Parser {
  return typeof value === "object" && value !== null && "onHeadersComplete" in value;
}
