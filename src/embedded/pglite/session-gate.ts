import { setTimeout as delay } from "node:timers/promises";
import type { PGlite } from "@electric-sql/pglite";
import { makeSharedStatements } from "./shared-statements.ts";

/** What the socket server uses of a PGlite. */
type ServedDatabase = Pick<
  PGlite,
  "waitReady" | "isInTransaction" | "runExclusive" | "exec" | "execProtocolRawStream"
>;

export interface Notification {
  readonly channel: string;
  readonly payload: string;
}

const STARTUP = 0;
const FRAME = {
  query: 0x51,
  sync: 0x53,
  flush: 0x48,
  terminate: 0x58,
  notification: 0x41,
} as const;

/**
 * Stands between the socket server and PGlite, which is one session for all connections.
 *
 * The server hands over one protocol message at a time and may take the next one from another connection,
 * except inside a transaction block. So the messages of an extended query (Parse, Bind, Execute … Sync) of two
 * connections would mix, and one would run the other's statement. Here they are gathered until Sync and run as
 * one; meanwhile `isInTransaction` says true, which keeps the server with the same connection.
 *
 * A named statement belongs to the session as well: see `makeSharedStatements`.
 *
 * NOTIFY comes back in the answer to whichever connection committed it: it is taken out and handed to `onNotification`.
 */
export function makeSessionGate(
  database: PGlite,
  onNotification: (notification: Notification) => void,
): PGlite {
  let gathered: Uint8Array[] = [];
  const statements = makeSharedStatements();

  const gate: ServedDatabase = {
    waitReady: database.waitReady,
    isInTransaction: () => gathered.length > 0 || database.isInTransaction(),
    runExclusive: async (work) => database.runExclusive(work),
    // The server calls this, with ROLLBACK, when the connection that holds the session is gone.
    async exec(query, options) {
      gathered = [];
      return database.isInTransaction() ? database.exec(query, options) : [];
    },
    async execProtocolRawStream(message, options) {
      const type = message[0];
      // A connection's end ends no session: there is only one.
      if (type === FRAME.terminate) return;
      gathered.push(message);
      if (!endsBatch(type)) return;
      const { frames, answered, onAnswer } = statements.take(gathered);
      const batch = frames.length === 1 ? frames[0]! : Buffer.concat(frames);
      gathered = [];
      const chunks: Buffer[] = [answered];
      try {
        await database.execProtocolRawStream(batch, {
          ...options,
          onRawData: (data) => {
            chunks.push(Buffer.from(data)); // a copy: the view dies with the call
          },
        });
      } catch (error) {
        // A thrown error would stop the server's queue for all connections: answer it as PostgreSQL would.
        chunks.push(internalError(error));
      }
      const answer = Buffer.concat(chunks);
      onAnswer(answer);
      options.onRawData(withoutNotifications(answer, onNotification));
    },
  };
  return gate as PGlite;
}

const RETRY_MS = 10;

/** Makes the session listen: not inside the transaction of some connection, whose rollback would undo it. */
export async function listenOutsideTransactions(database: PGlite, channel: string): Promise<void> {
  const text = Buffer.from(`LISTEN "${channel.replaceAll('"', '""')}"\0`);
  const message = Buffer.concat([Buffer.from("Q\0\0\0\0"), text]);
  message.writeInt32BE(text.length + 4, 1);
  const listen = async () =>
    database.runExclusive(async () => {
      if (database.isInTransaction()) return false;
      await database.execProtocolRawStream(message, { onRawData: () => undefined });
      return true;
    });
  while (!(await listen())) await delay(RETRY_MS);
}

function endsBatch(type: number | undefined): boolean {
  return type === FRAME.query || type === FRAME.sync || type === FRAME.flush || type === STARTUP;
}

/** ErrorResponse and ReadyForQuery (PostgreSQL documentation, "Message Formats"). */
function internalError(error: unknown): Buffer {
  const text = error instanceof Error ? error.message : String(error);
  const fields = Buffer.from(`SERROR\0VERROR\0CXX000\0M${text.replaceAll("\0", " ")}\0\0`);
  const head = Buffer.alloc(5);
  head.write("E");
  head.writeInt32BE(fields.length + 4, 1);
  return Buffer.concat([head, fields, Buffer.from([0x5a, 0, 0, 0, 5, 0x49])]);
}

/** NotificationResponse: "A", length, process id, channel\0, payload\0. */
function withoutNotifications(
  answer: Buffer,
  onNotification: (notification: Notification) => void,
): Uint8Array {
  const kept: Buffer[] = [];
  let at = 0;
  while (at + 5 <= answer.length) {
    const end = at + 1 + answer.readInt32BE(at + 1);
    if (answer[at] === FRAME.notification) {
      const [channel = "", payload = ""] = answer.toString("utf8", at + 9, end).split("\0");
      onNotification({ channel, payload });
    } else kept.push(answer.subarray(at, end));
    at = end;
  }
  return Buffer.concat(kept);
}
