import { framesOf, MESSAGE } from "./messages.ts";

/** ParseComplete: "1", length 4. */
const PARSE_COMPLETE = Buffer.from([0x31, 0, 0, 0, 4]);
const NOTHING = Buffer.alloc(0);

interface TakenBatch {
  /** What the session is given. */
  readonly frames: readonly Uint8Array[];
  /** What precedes the session's answer. */
  readonly answered: Buffer;
  /** Called with the whole answer. */
  readonly onAnswer: (answer: Buffer) => void;
}

/**
 * Each connection prepares a named statement once, but in PGlite all connections are one session, which has it already:
 * the Parse of a statement that exists under this name with this text is answered here, and not passed on.
 * The same name with another text is passed on, and refused by the session.
 */
export function makeSharedStatements(): {
  take(batch: readonly Uint8Array[]): TakenBatch;
} {
  /** Text and parameter types, by name. */
  const prepared = new Map<string, Buffer>();
  return {
    take(batch) {
      const parse = readParse(batch[0]);
      if (parse === null) return { frames: batch, answered: NOTHING, onAnswer: () => {} };
      const { name, rest } = parse;
      if (prepared.get(name)?.equals(rest) === true)
        return { frames: batch.slice(1), answered: PARSE_COMPLETE, onAnswer: () => {} };
      return {
        frames: batch,
        answered: NOTHING,
        onAnswer: (answer) => {
          if (holdsParseComplete(answer)) prepared.set(name, rest);
        },
      };
    },
  };
}

/** Reads a Parse: "P", length, name\0, text\0, types (PostgreSQL documentation, "Message Formats"). Null for others or without a name. */
function readParse(
  frame: Uint8Array | undefined,
): { readonly name: string; readonly rest: Buffer } | null {
  if (frame === undefined || frame[0] !== MESSAGE.parse) return null;
  const nameEnd = frame.indexOf(0, 5);
  if (nameEnd <= 5) return null;
  return {
    name: Buffer.from(frame.subarray(5, nameEnd)).toString(),
    rest: Buffer.from(frame.subarray(nameEnd)),
  };
}

/** Finds a ParseComplete, which notices and notifications may precede. */
function holdsParseComplete(answer: Buffer): boolean {
  for (const frame of framesOf(answer)) if (frame[0] === PARSE_COMPLETE[0]) return true;
  return false;
}
