import type { PGlite } from "@electric-sql/pglite";
import {
  errorResponse,
  internalError,
  MESSAGE,
  openingOf,
  simpleQuery,
  splitAnswer,
} from "./messages.ts";
import { makeSharedStatements } from "./shared-statements.ts";

/** What the socket server uses of a PGlite. */
type ServedDatabase = Pick<
  PGlite,
  "waitReady" | "isInTransaction" | "runExclusive" | "exec" | "execProtocolRawStream"
>;

/** Undoes what was set for the session, by SET or a function, and who it acts as (this engine knows no user to go back to by itself). */
const UNDO_SETTINGS = simpleQuery("SET SESSION AUTHORIZATION postgres; RESET ALL");
const ROLLBACK = simpleQuery("ROLLBACK");
/** Statements that would take from all connections what they have prepared or listen to. */
const DROPS_SESSION = /^\s*(?:DISCARD\s|DEALLOCATE\s+(?:PREPARE\s+)?ALL\b|UNLISTEN\s*\*)/i;
/** Fails in their place, whether a transaction is open or not. */
const REFUSE_DROPS = simpleQuery(`DO $$ BEGIN
  RAISE feature_not_supported USING MESSAGE = 'all connections are one session: this would take from the others what they have prepared or listen to';
END $$`);
/** idle_in_transaction_session_timeout */
const IDLE_TOO_LONG = errorResponse(
  "FATAL",
  "25P03",
  "a transaction was left open, and everybody else waited for it: it is rolled back",
);

/** Writes to a connection; nothing, once that is gone. */
type Way = (data: Uint8Array) => void;

/**
 * Stands between the socket server and PGlite, which is one session for all connections.
 *
 * The server hands over one protocol message at a time and may take the next one from another connection,
 * except inside a transaction block. So the messages of an extended query (Parse, Bind, Execute … Sync) of two
 * connections would mix, and one would run the other's statement. Here they are gathered until Sync and run as
 * one; meanwhile `isInTransaction` returns true, which keeps the server with the same connection.
 *
 * A named statement belongs to the session as well: see `makeSharedStatements`. What a connection sets for itself, as `pg_dump` does with
 * the search path, would hold for all of them from then on: it is undone at once, or at the end of its transaction. A statement that
 * would drop what all of them have prepared or listen to is refused.
 *
 * NOTIFY comes back in the answer to whichever connection committed it: it is taken out, and sent to the connections that
 * have listened before that connection is answered, so that whoever hears of the commit finds a listener told.
 *
 * All others wait for a connection that has begun a transaction or a batch. If it sends nothing more for `maxIdleMs`, as a psql
 * that somebody left or a process that is frozen, that is rolled back, and it is told to connect anew; `onGivenUp` is called.
 */
export function makeSessionGate(
  database: PGlite,
  { maxIdleMs, onGivenUp }: { readonly maxIdleMs: number; readonly onGivenUp: () => void },
): PGlite {
  let gathered: Uint8Array[] = [];
  let hasSettings = false;
  let messages = 0;
  let waiting: NodeJS.Timeout | undefined;
  const statements = makeSharedStatements();
  const listening = makeListeningConnections();

  /** Answers an error as PostgreSQL would: thrown, it would stop the server's queue for all connections. */
  async function run(batch: Uint8Array): Promise<Buffer[]> {
    const chunks: Buffer[] = [];
    try {
      await database.execProtocolRawStream(batch, {
        onRawData: (data) => {
          chunks.push(Buffer.from(data)); // a copy: the view dies with the call
        },
      });
    } catch (error) {
      chunks.push(internalError(error));
    }
    return chunks;
  }

  async function giveUp(expected: number, tell: Way): Promise<void> {
    const isGivenUp = await database.runExclusive(async () => {
      if (messages !== expected || !gate.isInTransaction()) return false;
      gathered = [];
      if (database.isInTransaction()) await run(ROLLBACK);
      return true;
    });
    if (!isGivenUp) return;
    tell(IDLE_TOO_LONG);
    onGivenUp();
  }

  function watchIdle(tell: Way): void {
    clearTimeout(waiting);
    const expected = messages;
    if (gate.isInTransaction())
      waiting = setTimeout(() => void giveUp(expected, tell), maxIdleMs).unref();
  }

  async function take(message: Uint8Array, answerTo: Way): Promise<void> {
    const type = message[0];
    // The end of a connection ends no session: there is only one.
    if (type === MESSAGE.terminate) return;
    gathered.push(message);
    if (!endsBatch(type)) return;
    const { frames, answered, onAnswer } = statements.take(gathered);
    const sent = frames.length === 1 ? frames[0]! : Buffer.concat(frames);
    const batch = dropsSession(sent) ? REFUSE_DROPS : sent;
    gathered = [];
    const answer = Buffer.concat([answered, ...(await run(batch))]);
    onAnswer(answer);
    const { rest, notifications, isSet } = splitAnswer(answer);
    hasSettings ||= isSet || callsSetConfig(batch);
    if (hasSettings && !database.isInTransaction()) {
      await run(UNDO_SETTINGS);
      hasSettings = false;
    }
    if (notifications.length > 0) listening.send(notifications);
    answerTo(rest);
    if (isListen(message)) listening.add(answerTo);
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
    async execProtocolRawStream(message, { onRawData }) {
      messages += 1;
      await take(message, onRawData);
      watchIdle(onRawData);
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

function endsBatch(type: number | undefined): boolean {
  return (
    type === MESSAGE.query ||
    type === MESSAGE.sync ||
    type === MESSAGE.flush ||
    type === MESSAGE.startup
  );
}

/** Of so many, most belong to connections that are gone. */
const MAX_LISTENING = 64;
/** admin_shutdown: whoever is told this connects anew. */
const CONNECT_ANEW = errorResponse("FATAL", "57P01", "listen again on another connection");

/**
 * Keeps the ways to connections that have sent LISTEN. Which channel does not matter: all connections are one session, and
 * each takes what it knows. A way whose connection is gone writes nothing, and nothing tells which those are: when there are too many,
 * all are given up, and those still connected listen again.
 */
function makeListeningConnections() {
  const ways: Way[] = [];
  return {
    add(way: Way): void {
      if (ways.length === MAX_LISTENING) for (const old of ways.splice(0)) old(CONNECT_ANEW);
      ways.push(way);
    },
    send(frames: Buffer): void {
      for (const way of ways) way(frames);
    },
  };
}

function isListen(message: Uint8Array): boolean {
  return message[0] === MESSAGE.query && /^\s*LISTEN\s/i.test(openingOf(message));
}

function dropsSession(batch: Uint8Array): boolean {
  return DROPS_SESSION.test(openingOf(batch));
}

function callsSetConfig(batch: Uint8Array): boolean {
  return Buffer.from(batch.buffer, batch.byteOffset, batch.byteLength).includes("set_config");
}
