import type { ExecProtocolOptionsStream, PGlite } from "@electric-sql/pglite";
import { makeSharedStatements } from "./shared-statements.ts";
import { messageOf } from "../../domain/thrown.ts";

/** What the socket server uses of a PGlite. */
type ServedDatabase = Pick<
  PGlite,
  "waitReady" | "isInTransaction" | "runExclusive" | "exec" | "execProtocolRawStream"
>;

const STARTUP = 0;
const FRAME = {
  query: 0x51,
  sync: 0x53,
  flush: 0x48,
  terminate: 0x58,
  notification: 0x41,
  commandComplete: 0x43,
} as const;
/** Undoes what was set for the session, by SET or a function, and who it acts as (this engine knows no user to go back to by itself). */
const UNDO_SETTINGS = simpleQuery("SET SESSION AUTHORIZATION postgres; RESET ALL");

/**
 * Stands between the socket server and PGlite, which is one session for all connections.
 *
 * The server hands over one protocol message at a time and may take the next one from another connection,
 * except inside a transaction block. So the messages of an extended query (Parse, Bind, Execute … Sync) of two
 * connections would mix, and one would run the other's statement. Here they are gathered until Sync and run as
 * one; meanwhile `isInTransaction` returns true, which keeps the server with the same connection.
 *
 * A named statement belongs to the session as well: see `makeSharedStatements`. What a connection sets for itself, as `pg_dump` does with
 * the search path, would hold for all of them, and on: it is undone at once, or with the end of its transaction.
 *
 * NOTIFY comes back in the answer to whichever connection committed it: it is taken out, and sent to the connections that
 * have listened before that connection is answered, so that whoever hears of the commit finds a listener told.
 */
export function makeSessionGate(database: PGlite): PGlite {
  let gathered: Uint8Array[] = [];
  let hasSettings = false;
  const statements = makeSharedStatements();
  const listening = makeListeningConnections();

  /** Answers an error as PostgreSQL would: thrown, it would stop the server's queue for all connections. */
  async function run(batch: Uint8Array, options: ExecProtocolOptionsStream): Promise<Buffer[]> {
    const chunks: Buffer[] = [];
    try {
      await database.execProtocolRawStream(batch, {
        ...options,
        onRawData: (data) => {
          chunks.push(Buffer.from(data)); // a copy: the view dies with the call
        },
      });
    } catch (error) {
      chunks.push(internalError(error));
    }
    return chunks;
  }

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
      // The end of a connection ends no session: there is only one.
      if (type === FRAME.terminate) return;
      gathered.push(message);
      if (!endsBatch(type)) return;
      const { frames, answered, onAnswer } = statements.take(gathered);
      const batch = frames.length === 1 ? frames[0]! : Buffer.concat(frames);
      gathered = [];
      const answer = Buffer.concat([answered, ...(await run(batch, options))]);
      onAnswer(answer);
      const { rest, notifications, isSet } = splitAnswer(answer);
      hasSettings ||= isSet || callsSetConfig(batch);
      if (hasSettings && !database.isInTransaction()) {
        await run(UNDO_SETTINGS, options);
        hasSettings = false;
      }
      if (notifications.length > 0) listening.send(notifications);
      options.onRawData(rest);
      if (isListen(message)) listening.add(options.onRawData);
    },
  };
  return gate as PGlite;
}

/** Returns false, with nothing run, while a connection is inside a transaction. Ignores what the engine answers. */
export async function runOutsideTransactions(database: PGlite, sql: string): Promise<boolean> {
  return database.runExclusive(async () => {
    if (database.isInTransaction()) return false;
    await database.execProtocolRawStream(simpleQuery(sql), { onRawData: () => undefined });
    return true;
  });
}

function simpleQuery(sql: string): Buffer {
  const text = Buffer.from(`${sql}\0`);
  const message = Buffer.concat([Buffer.from("Q\0\0\0\0"), text]);
  message.writeInt32BE(text.length + 4, 1);
  return message;
}

function endsBatch(type: number | undefined): boolean {
  return type === FRAME.query || type === FRAME.sync || type === FRAME.flush || type === STARTUP;
}

/** Returns ErrorResponse and ReadyForQuery (PostgreSQL documentation, "Message Formats"). */
function internalError(error: unknown): Buffer {
  const response = errorResponse("ERROR", "XX000", messageOf(error).replaceAll("\0", " "));
  return Buffer.concat([response, Buffer.from([0x5a, 0, 0, 0, 5, 0x49])]);
}

function errorResponse(severity: "ERROR" | "FATAL", sqlState: string, text: string): Buffer {
  const fields = Buffer.from(`S${severity}\0V${severity}\0C${sqlState}\0M${text}\0\0`);
  const head = Buffer.alloc(5);
  head.write("E");
  head.writeInt32BE(fields.length + 4, 1);
  return Buffer.concat([head, fields]);
}

/** Of so many, most belong to connections that are gone. */
const MOST_LISTENING = 64;
/** admin_shutdown: whoever is told this connects anew. */
const CONNECT_ANEW = errorResponse("FATAL", "57P01", "listen again on another connection");

/**
 * Keeps the ways to connections that have sent LISTEN. Which channel does not matter: all connections are one session, and
 * each takes what it knows. A way whose connection is gone writes nothing, and nothing tells which those are: when there are too many,
 * all are given up, and those still connected listen again.
 */
function makeListeningConnections() {
  const ways: ((data: Uint8Array) => void)[] = [];
  return {
    add(way: (data: Uint8Array) => void): void {
      if (ways.length === MOST_LISTENING) for (const old of ways.splice(0)) old(CONNECT_ANEW);
      ways.push(way);
    },
    send(frames: Buffer): void {
      for (const way of ways) way(frames);
    },
  };
}

function isListen(message: Uint8Array): boolean {
  return (
    message[0] === FRAME.query &&
    /^\s*LISTEN\s/i.test(Buffer.from(message.subarray(5, 64)).toString())
  );
}

function callsSetConfig(batch: Uint8Array): boolean {
  return Buffer.from(batch.buffer, batch.byteOffset, batch.byteLength).includes("set_config");
}

interface SplitAnswer {
  readonly rest: Buffer;
  readonly notifications: Buffer;
  /** Whether a SET was among what was run. */
  readonly isSet: boolean;
}

/** Takes each NotificationResponse out of an answer. */
function splitAnswer(answer: Buffer): SplitAnswer {
  const rest: Buffer[] = [];
  const notifications: Buffer[] = [];
  let isSet = false;
  let at = 0;
  while (at + 5 <= answer.length) {
    const end = at + 1 + answer.readInt32BE(at + 1);
    const frames = answer[at] === FRAME.notification ? notifications : rest;
    frames.push(answer.subarray(at, end));
    isSet ||=
      answer[at] === FRAME.commandComplete && answer.toString("latin1", at + 5, end) === "SET\0";
    at = end;
  }
  return { rest: Buffer.concat(rest), notifications: Buffer.concat(notifications), isSet };
}
