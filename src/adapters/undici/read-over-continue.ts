import type { Socket } from "node:net";

const CONTINUE = 100;
const PROCESSING = 102;

type OnHeadersComplete = (status: number, ...rest: unknown[]) => number;

/**
 * Lets undici read over a `100 Continue` that it did not ask for, as a client has to (RFC 9110 section 15.2), and as it does with the
 * other interim answers: it would break the connection off, and the delivery that the receiver took would be made again.
 * Its parser belongs to the socket once the connector has handed that over.
 */
export function readOverContinue(socket: Socket): void {
  setImmediate(() => {
    const parser = parserOf(socket);
    if (parser === null) return;
    const { onHeadersComplete } = parser;
    parser.onHeadersComplete = (status, ...rest) =>
      onHeadersComplete.call(parser, status === CONTINUE ? PROCESSING : status, ...rest);
  });
}

function parserOf(socket: Socket): { onHeadersComplete: OnHeadersComplete } | null {
  const key = Object.getOwnPropertySymbols(socket).find(
    ({ description }) => description === "parser",
  );
  const parser: unknown = key === undefined ? null : Reflect.get(socket, key);
  return isParser(parser) ? parser : null;
}

function isParser(value: unknown): value is { onHeadersComplete: OnHeadersComplete } {
  return (
    typeof value === "object" &&
    value !== null &&
    "onHeadersComplete" in value &&
    typeof value.onHeadersComplete === "function"
  );
}
