import { messageOf } from "../../domain/thrown.ts";

/** First bytes of messages (PostgreSQL documentation, "Message Formats"). A startup message has none. */
export const MESSAGE = {
  startup: 0,
  query: 0x51,
  parse: 0x50,
  sync: 0x53,
  flush: 0x48,
  terminate: 0x58,
  notification: 0x41,
  commandComplete: 0x43,
} as const;

export function simpleQuery(sql: string): Buffer {
  const text = Buffer.from(`${sql}\0`);
  const message = Buffer.concat([Buffer.from("Q\0\0\0\0"), text]);
  message.writeInt32BE(text.length + 4, 1);
  return message;
}

/** Returns how the statement of a Query or a Parse begins; "" for other messages. */
export function openingOf(message: Uint8Array): string {
  const [type] = message;
  if (type !== MESSAGE.query && type !== MESSAGE.parse) return "";
  // In a Parse, it stands behind its name.
  const from = type === MESSAGE.query ? 5 : message.indexOf(0, 5) + 1;
  return Buffer.from(message.subarray(from, from + 64)).toString("latin1");
}

/** Returns ErrorResponse and ReadyForQuery. */
export function internalError(error: unknown): Buffer {
  const response = errorResponse("ERROR", "XX000", messageOf(error).replaceAll("\0", " "));
  return Buffer.concat([response, Buffer.from([0x5a, 0, 0, 0, 5, 0x49])]);
}

export function errorResponse(severity: "ERROR" | "FATAL", sqlState: string, text: string): Buffer {
  const fields = Buffer.from(`S${severity}\0V${severity}\0C${sqlState}\0M${text}\0\0`);
  const head = Buffer.alloc(5);
  head.write("E");
  head.writeInt32BE(fields.length + 4, 1);
  return Buffer.concat([head, fields]);
}

/** Yields the messages of an answer, each with its type and length in front. */
export function* framesOf(answer: Buffer): Generator<Buffer, void> {
  let at = 0;
  while (at + 5 <= answer.length) {
    const end = at + 1 + answer.readInt32BE(at + 1);
    yield answer.subarray(at, end);
    at = end;
  }
}

interface SplitAnswer {
  readonly rest: Buffer;
  readonly notifications: Buffer;
  /** Whether a SET was among what was run. */
  readonly isSet: boolean;
}

/** Takes each NotificationResponse out of an answer. */
export function splitAnswer(answer: Buffer): SplitAnswer {
  const rest: Buffer[] = [];
  const notifications: Buffer[] = [];
  let isSet = false;
  for (const frame of framesOf(answer)) {
    (frame[0] === MESSAGE.notification ? notifications : rest).push(frame);
    isSet ||= frame[0] === MESSAGE.commandComplete && frame.toString("latin1", 5) === "SET\0";
  }
  return { rest: Buffer.concat(rest), notifications: Buffer.concat(notifications), isSet };
}
