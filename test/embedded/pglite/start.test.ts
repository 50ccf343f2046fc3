import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import {
  chmod,
  chown,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  rmdir,
  stat,
  symlink,
  truncate,
  writeFile,
} from "node:fs/promises";
import { Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { startConfigFeed } from "../../../src/adapters/postgres/config-feed.ts";
import { openDatabase, type Database } from "../../../src/adapters/postgres/database.ts";
import type { ConfigChange } from "../../../src/domain/config-store.ts";
import { toError } from "../../../src/domain/thrown.ts";
import {
  attachEmbeddedPostgres,
  startEmbeddedPostgres,
  type EmbeddedConnection,
} from "../../../src/embedded/pglite/start.ts";
import { makeSocketDirectory, socketPath } from "../../../src/embedded/pglite/socket-directory.ts";
import { realClock } from "../../support/clickhouse.ts";
import { waitFor } from "../../support/wait-for.ts";
import { PGLITE_TEMPLATE, temporaryDirectory } from "../../support/postgres.ts";
import { makeSilentLogger, silentLogger } from "../../support/silent-logger.ts";

const CHILD = new URL("../../support/postgres-child.ts", import.meta.url);

// A database takes seconds to make, and many times that where the machine is busy.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 });

type StartOptions = Partial<Parameters<typeof startEmbeddedPostgres>[0]>;

async function start(dataDir: string, options: StartOptions = {}) {
  const usual = { dataDir, logger: silentLogger, templateFile: PGLITE_TEMPLATE };
  return startEmbeddedPostgres({ ...usual, ...options });
}

function open(connection: EmbeddedConnection, maxConnections = 4): Database {
  return openDatabase({ connection, maxConnections, logger: silentLogger });
}

async function startChild(dataDir: string): Promise<ChildProcess> {
  const child = fork(CHILD, [dataDir], { execArgv: ["--import", "tsx"] });
  await once(child, "message");
  return child;
}

async function kill(child: ChildProcess): Promise<void> {
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
}

afterEach(() => vi.unstubAllEnvs());

describe("embedded PostgreSQL shared by several connections", () => {
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let embedded: Awaited<ReturnType<typeof start>>;
  let database: Database;

  beforeAll(async () => {
    directory = await temporaryDirectory();
    embedded = await start(directory.path);
    database = open(embedded.connection, 8);
    await database.run("CREATE TABLE counters (id int PRIMARY KEY, value int NOT NULL)");
    await database.run("INSERT INTO counters VALUES (1, 0)");
  });
  afterAll(async () => {
    await database[Symbol.asyncDispose]();
    await embedded[Symbol.asyncDispose]();
    await directory[Symbol.asyncDispose]();
  });

  async function connect(): Promise<pg.Client> {
    const client = new pg.Client(embedded.connection);
    await client.connect();
    return client;
  }

  async function listen(channel: string) {
    const listener = await connect();
    const heard: string[] = [];
    listener.on("notification", ({ payload }) => heard.push(payload ?? ""));
    await listener.query(`LISTEN ${channel}`);
    return { listener, heard };
  }

  it("listens where only its user may connect", async () => {
    const { mode } = await stat(socketPath(embedded.connection.host));
    expect(mode & 0o777).toBe(0o600);
  });

  it("gives every connection the answer to its own statement", async () => {
    const answers = await Promise.all(
      Array.from({ length: 150 }, async (_, index) => {
        const rows = await database.run(`SELECT $1::int + ${index % 7} AS sum, $2::text AS name`, [
          index,
          `name ${index}`,
        ]);
        return rows[0];
      }),
    );
    expect(answers).toEqual(
      answers.map((_, index) => ({ sum: index + (index % 7), name: `name ${index}` })),
    );
  });

  it("keeps statements apart that come in many pieces", async () => {
    const large = "x".repeat(2_000_000);
    const rows = await Promise.all(
      Array.from({ length: 24 }, (_, index) =>
        database.run(`SELECT length($1)::int AS length, $2::int AS index`, [
          index % 4 === 0 ? large : "small",
          index,
        ]),
      ),
    );
    expect(rows.map(([row]) => row)).toEqual(
      rows.map((_, index) => ({ length: index % 4 === 0 ? large.length : 5, index })),
    );
  });

  it("prepares a statement under one name for all connections, which are one session", async () => {
    const connections = await Promise.all(
      Array.from({ length: 4 }, async () => {
        const { host, user, database: name } = embedded.connection;
        const client = new pg.Client({ host, user, database: name });
        await client.connect();
        return client;
      }),
    );
    const ask = async (client: pg.Client, value: number) =>
      (
        await client.query<{ value: number }>({
          name: "shared",
          text: "SELECT $1::int AS value",
          values: [value],
        })
      ).rows[0]?.value;
    for (let round = 0; round < 3; round += 1)
      expect(await Promise.all(connections.map((client, index) => ask(client, index)))).toEqual([
        0, 1, 2, 3,
      ]);
    const [first, second] = connections;
    await expect(
      second?.query({ name: "broken", text: "SELECT $1::int / 0 FROM nothing", values: [1] }),
    ).rejects.toThrow(/does not exist/);
    await expect(
      first?.query({ name: "broken", text: "SELECT $1::int AS value", values: [1] }),
    ).resolves.toMatchObject({ rows: [{ value: 1 }] });
    const later = { name: "later", text: "SELECT * FROM made_later", values: [] };
    await expect(first?.query(later)).rejects.toThrow(/does not exist/);
    await database.run("CREATE TABLE made_later (id int)");
    await expect(second?.query(later)).resolves.toMatchObject({ rows: [] });
    const other = new pg.Client(embedded.connection);
    await other.connect();
    await expect(
      other.query({ name: "shared", text: "SELECT 2 + $1::int AS value", values: [1] }),
    ).rejects.toMatchObject({ code: "42P05" });
    await Promise.all([...connections, other].map(async (client) => client.end()));
  });

  it("passes NOTIFY on to every connection that listens, whichever sent it", async () => {
    const { host, user, database: name } = embedded.connection;
    const heard: string[] = [];
    const open = async (label: string) => {
      const client = new pg.Client({ host, user, database: name });
      client.on("notification", ({ payload }) => heard.push(`${label}: ${payload}`));
      await client.connect();
      return client;
    };
    const [first, second, deaf, gone] = await Promise.all(
      ["first", "second", "deaf", "gone"].map(open),
    );
    for (const client of [first, second, gone]) await client?.query("LISTEN changes");
    await gone?.end();
    await database.run("SELECT pg_notify('changes', $1)", ["one"]);
    await first?.query("NOTIFY changes, 'two'");
    await database.run("SELECT pg_notify('changes', $1)", ["three"]);
    const wanted = ["one", "two", "three"].flatMap((text) => [`first: ${text}`, `second: ${text}`]);
    await waitFor("all of them", () => heard.length >= wanted.length);
    expect(heard.toSorted()).toEqual(wanted.toSorted());
    await Promise.all([first, second, deaf].map(async (client) => client?.end()));
  });

  it("regression: goes on telling the feed of changes, however many others have begun to listen and gone since: after 64 restarts of a process that attaches, the owner heard of none", async () => {
    const changes: ConfigChange[] = [];
    await using feed = startConfigFeed({
      connection: embedded.connection,
      clock: realClock,
      logger: silentLogger,
      explain: toError,
      onChange: (change) => changes.push(change),
      onGap: () => undefined,
    });
    await waitFor("the feed to listen", () => feed.listening());
    for (let others = 0; others < 64; others += 1) {
      const { listener } = await listen("relay_config");
      await listener.end();
    }
    await expect
      .poll(
        async () => {
          await database.run("SELECT pg_notify('relay_config', $1)", ["ep_1 token dst_1"]);
          return changes;
        },
        { timeout: 30_000 },
      )
      .toContainEqual({ endpointId: "ep_1", token: "token", destinationId: "dst_1" });
  });

  it("keeps an error with the connection that caused it", async () => {
    const outcomes = await Promise.all(
      Array.from({ length: 100 }, async (_, index) =>
        database
          .run(index % 3 === 0 ? "SELECT $1::int / 0 AS x" : "SELECT $1::int AS x", [index])
          .then((rows) => rows[0]?.["x"])
          .catch((error: Error) => error.message),
      ),
    );
    expect(outcomes).toEqual(
      outcomes.map((_, index) => (index % 3 === 0 ? "division by zero" : index)),
    );
  });

  it.each([
    ["SET", ["SET search_path TO ''", "SET default_transaction_read_only TO on"]],
    ["set_config", ["SELECT set_config('search_path', '', false)"]],
    ["a role", ["SET SESSION AUTHORIZATION pg_monitor"]],
    ["a transaction", ["BEGIN", "SET search_path TO ''", "SELECT 1", "COMMIT"]],
  ])(
    "regression: what one connection sets for its session (%s) holds for no other: after pg_dump or a psql the relay found no table until it was restarted",
    async (_what, statements) => {
      const other = await connect();
      try {
        for (const statement of statements) await other.query(statement);
        await database.run("UPDATE counters SET value = value WHERE id = 1");
        expect(await database.run("SELECT id FROM counters")).toEqual([{ id: 1 }]);
      } finally {
        await other.end();
      }
    },
  );

  it("regression: does not drop what all connections have prepared and listen to because one asks for it: the relay's statements failed until it was restarted", async () => {
    const { heard, listener } = await listen("news");
    const other = await connect();
    const kept = () => database.run("SELECT value FROM counters WHERE id = $1", [1]);
    try {
      await kept();
      for (const statement of ["DISCARD ALL", "deallocate all", "UNLISTEN *"]) {
        await expect(other.query(statement)).rejects.toMatchObject({ code: "0A000" });
        await expect(other.query({ text: statement, values: [] })).rejects.toMatchObject({
          code: "0A000",
        });
      }
      await other.query("BEGIN");
      await expect(other.query("DISCARD PLANS")).rejects.toMatchObject({ code: "0A000" });
      await expect(other.query("SELECT 1")).rejects.toMatchObject({ code: "25P02" });
      await other.query("ROLLBACK");
      expect(await kept()).toHaveLength(1);
      await other.query("NOTIFY news, 'still heard'");
      await waitFor("the notice", () => heard.includes("still heard"));
    } finally {
      await Promise.all([other.end(), listener.end()]);
    }
  });

  it("keeps what a transaction sets for itself until it ends", async () => {
    const other = await connect();
    try {
      await other.query("BEGIN");
      await other.query("SET LOCAL search_path TO ''");
      const { rows } = await other.query("SHOW search_path");
      expect(rows).toEqual([{ search_path: '""' }]);
      await other.query("ROLLBACK");
    } finally {
      await other.end();
    }
    expect(await database.run("SHOW search_path")).toEqual([{ search_path: "public" }]);
  });

  it("runs transactions one after another, whole or not at all", async () => {
    const failures = await Promise.all(
      Array.from({ length: 60 }, async (_, index) =>
        database
          .transaction(async (run) => {
            const rows = await run("SELECT value FROM counters WHERE id = $1 FOR UPDATE", [1]);
            await run("UPDATE counters SET value = $1 WHERE id = 1", [
              Number(rows[0]?.["value"]) + 1,
            ]);
            if (index % 4 === 0) throw new Error("undo");
          })
          .then(() => 0)
          .catch(() => 1),
      ),
    );
    const rows = await database.run("SELECT value FROM counters WHERE id = 1");
    expect(rows[0]?.["value"]).toBe(60 - failures.reduce<number>((sum, one) => sum + one, 0));
  });

  it("rolls back what a connection left open when it went away, and serves the others on", async () => {
    for (const leave of ["BEGIN", "half of a statement"]) {
      const client = new pg.Client({ ...embedded.connection });
      client.on("error", () => undefined);
      await client.connect();
      await client.query("BEGIN");
      await client.query("UPDATE counters SET value = -1 WHERE id = 1");
      const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
      if (leave !== "BEGIN") {
        // Messages whose Sync never comes.
        const message = (type: string, ...parts: readonly (string | Buffer)[]): Buffer => {
          const text = Buffer.concat(parts.map((part) => Buffer.from(part)));
          const head = Buffer.from(`${type}\0\0\0\0`);
          head.writeInt32BE(text.length + 4, 1);
          return Buffer.concat([head, text]);
        };
        stream.write(message("P", "\0UPDATE counters SET value = -1\0", Buffer.alloc(2)));
        stream.write(message("B", Buffer.alloc(8)));
        stream.write(message("E", Buffer.alloc(5)));
        await new Promise<void>((resolve) => {
          stream.write("", () => resolve());
        });
      }
      stream.destroy();
      for (let reads = 0; reads < 2; reads += 1) {
        const rows = await database.run("SELECT value FROM counters WHERE id = 1");
        expect(rows[0]?.["value"]).not.toBe(-1);
      }
    }
  });

  it("passes on what is committed, and tells listeners before who committed it: a change that the API has answered is known", async () => {
    const { heard, listener } = await listen("news");
    const committer = await connect();
    /** What is readable with the answer is read in the same turn. */
    const run = async (sql: string) => {
      await committer.query(sql);
      await nextTurn();
      return heard;
    };
    expect(await run("NOTIFY news, 'one'")).toEqual(["one"]);
    await run("BEGIN");
    expect(await run("NOTIFY news, 'two'")).toEqual(["one"]);
    expect(await run("COMMIT")).toEqual(["one", "two"]);
    await run("BEGIN");
    await run("NOTIFY news, 'undone'");
    await run("ROLLBACK");
    expect(await run("NOTIFY news, 'three'")).toEqual(["one", "two", "three"]);
    await Promise.all([listener.end(), committer.end()]);
  });

  it("does not begin to listen inside a transaction, whose rollback would undo it", async () => {
    let listening: ReturnType<typeof listen> | null = null;
    const undone = database.transaction(async (run) => {
      await run("SELECT 1");
      listening = listen("later");
      await run("SELECT 2");
      throw new Error("undo");
    });
    await expect(undone).rejects.toThrow("undo");
    const { heard, listener } = await listening!;
    await database.run("SELECT pg_notify('later', 'heard')");
    await waitFor("what was notified", () => heard.length > 0);
    expect(heard).toEqual(["heard"]);
    await listener.end();
  });

  it("is what another process attaches to, and is not served twice", async () => {
    expect(await attachEmbeddedPostgres(directory.path)).toEqual(embedded.connection);
    await expect(start(directory.path)).rejects.toMatchObject({
      name: "UsageError",
      message: expect.stringContaining("another process serves the database"),
    });
    expect(await database.run("SELECT 1 AS one")).toEqual([{ one: 1 }]);
  });
});

describe("embedded PostgreSQL across restarts", () => {
  it("keeps what was committed through kill -9 in the midst of writing, several times", async () => {
    await using directory = await temporaryDirectory();
    let acknowledged = 0;
    for (let round = 0; round < 2; round += 1) {
      const child = await startChild(directory.path);
      const connection = await attachEmbeddedPostgres(directory.path);
      const database = open(connection!, 2);
      await database.run("CREATE TABLE IF NOT EXISTS numbers (n int PRIMARY KEY)");
      const writing = (async () => {
        for (;;) {
          await database.run("INSERT INTO numbers VALUES ($1)", [acknowledged + 1]);
          acknowledged += 1;
          if (acknowledged % 40 === 0) await kill(child);
        }
      })();
      await expect(writing).rejects.toMatchObject({ code: "unavailable" });
      await database[Symbol.asyncDispose]();
      expect(await attachEmbeddedPostgres(directory.path)).toBeNull();

      await using embedded = await start(directory.path);
      await using reader = open(embedded.connection);
      const rows = await reader.run(
        "SELECT max(n)::int AS max, count(*)::int AS count FROM numbers",
      );
      expect(rows[0]?.["count"]).toBe(rows[0]?.["max"]);
      expect(rows[0]?.["max"]).toBeGreaterThanOrEqual(acknowledged);
      acknowledged = Number(rows[0]?.["max"]);
    }
  });

  it("lets go of its write-ahead log while it runs: it kept every write until it was stopped", async () => {
    await using directory = await temporaryDirectory();
    await using embedded = await start(directory.path, { checkpointEveryMs: 100 });
    await using database = open(embedded.connection);
    await database.run("CREATE TABLE notes (text text)");
    const keptSince = async () =>
      (await database.run("SELECT redo_lsn FROM pg_control_checkpoint()"))[0]?.["redo_lsn"];
    const first = await keptSince();
    await database.run(
      "INSERT INTO notes SELECT repeat(md5(n::text), 30) FROM generate_series(1, 40000) AS n",
    );
    await waitFor("a checkpoint", async () => (await keptSince()) !== first);
    expect(await database.run("SELECT count(*)::int AS count FROM notes")).toEqual([
      { count: 40_000 },
    ]);
  });

  it("regression: is started again when its engine gives up, and keeps what it had answered: nothing was answered until a restart", async () => {
    await using directory = await temporaryDirectory();
    const told: string[] = [];
    const logger = makeSilentLogger((_, message) => told.push(message));
    await using embedded = await startEmbeddedPostgres({
      dataDir: directory.path,
      logger,
      templateFile: PGLITE_TEMPLATE,
    });
    await using database = open(embedded.connection);
    await database.run("CREATE TABLE numbers (n int PRIMARY KEY)");
    await database.run("INSERT INTO numbers VALUES (1)");
    const log = join(directory.path, "postgres", "data", "pg_wal");
    await rename(log, `${log}.away`);
    const writing = (async () => {
      for (;;)
        await database.run(
          "INSERT INTO numbers SELECT max(n) + 1 FROM numbers; SELECT pg_switch_wal()",
        );
    })();
    await expect(writing).rejects.toMatchObject({ code: "unavailable" });
    await rename(`${log}.away`, log);
    await waitFor("the thread's restart", () => told.includes("pglite.thread_restarted"));
    expect(told).toContain("pglite.panicked");
    expect(await database.run("SELECT min(n)::int AS n FROM numbers")).toEqual([{ n: 1 }]);
  });

  it("regression: rolls back what a connection has left open and sends nothing more for: a psql that somebody left kept all others waiting until it ended", async () => {
    await using directory = await temporaryDirectory();
    await using embedded = await start(directory.path, { maxIdleMs: 2_000 });
    await using database = open(embedded.connection);
    await database.run("CREATE TABLE kept (n int)");
    const left = new pg.Client(embedded.connection);
    await left.connect();
    const told = new Promise<unknown>((resolve) => left.once("error", resolve));
    await left.query("BEGIN");
    await left.query("INSERT INTO kept VALUES (1)");
    // Nobody else sends anything.
    expect(await database.run("SELECT n FROM kept")).toEqual([]);
    expect(await told).toMatchObject({ code: "25P03" });
    await expect(left.query("COMMIT")).rejects.toThrow(/not queryable/);
    await left.end();
  });

  it("regression: is made without a template that cannot be used: every first start failed, and asked for room on its disk", async () => {
    await using directory = await temporaryDirectory();
    const templateFile = join(directory.path, "template.tgz");
    await writeFile(templateFile, "of another version");
    await using embedded = await startEmbeddedPostgres({
      dataDir: directory.path,
      logger: silentLogger,
      templateFile,
    });
    await using database = open(embedded.connection);
    expect(await database.run("SELECT 1 AS one")).toEqual([{ one: 1 }]);
  });

  it("starts over what was killed while it was being made", async () => {
    await using directory = await temporaryDirectory();
    await mkdir(join(directory.path, "postgres", "data", "base"), { recursive: true });
    // Not for the first time.
    await mkdir(join(directory.path, "postgres", "unfinished", "base"), { recursive: true });
    await using embedded = await start(directory.path);
    await using database = open(embedded.connection);
    expect(await database.run("SELECT 1 AS one")).toEqual([{ one: 1 }]);
  });

  it("keeps a database whose mark is missing, starts anew beside it, and tells so: it was removed with all it held", async () => {
    await using directory = await temporaryDirectory();
    const files = join(directory.path, "postgres");
    await mkdir(join(files, "data", "base"), { recursive: true });
    await writeFile(join(files, "data", "kept"), "rows");
    const broken = join(directory.path, "template.tgz");
    await writeFile(broken, "not a template");
    const told: object[] = [];
    const embedded = await startEmbeddedPostgres({
      dataDir: directory.path,
      templateFile: broken,
      logger: makeSilentLogger((level, message, fields) => told.push({ level, message, fields })),
    });
    await embedded[Symbol.asyncDispose]();
    expect(told).toEqual([
      {
        level: "warn",
        message: "pglite.unfinished_database",
        fields: { keptAs: join(files, "unfinished") },
      },
      {
        level: "warn",
        message: "pglite.template_not_used",
        fields: { err: expect.any(String) },
      },
    ]);
    expect(await readFile(join(files, "unfinished", "kept"), "utf8")).toBe("rows");
  });

  it("says in one line that a database is missing or damaged: it made an empty one, or showed a stack", async () => {
    await using directory = await temporaryDirectory();
    const data = join(directory.path, "postgres", "data");
    await (await start(directory.path))[Symbol.asyncDispose]();
    await truncate(join(data, "global", "pg_control"), 0);
    // Any other error is shown with its stack.
    await expect(start(directory.path)).rejects.toMatchObject({
      name: "UsageError",
      message: expect.stringMatching(/cannot be opened .* restore the data directory/),
    });
    await rm(data, { recursive: true });
    await expect(start(directory.path)).rejects.toMatchObject({
      name: "UsageError",
      message: expect.stringMatching(/is missing: restore the data directory/),
    });
  });

  it("says that a database is missing whose whole directory is: it made an empty one, and what was pending ended dead", async () => {
    await using directory = await temporaryDirectory();
    const files = join(directory.path, "postgres");
    await (await start(directory.path))[Symbol.asyncDispose]();
    await rename(files, join(directory.path, "elsewhere"));
    await expect(start(directory.path)).rejects.toThrow(/is missing: restore the data directory/);
    await rm(files, { recursive: true, force: true });
    await rename(join(directory.path, "elsewhere"), files);
    await rm(join(files, "ready"));
    await (await start(directory.path))[Symbol.asyncDispose]();
    expect(await readdir(files)).not.toContain("unfinished");
  });

  it("meets in one place by whichever name the data directory is called: keys were refused by a symbolic link", async () => {
    await using directory = await temporaryDirectory();
    const deep = join(directory.path, "d".repeat(90));
    await using embedded = await start(deep);
    const short = join(directory.path, "short");
    await symlink(deep, short);
    expect(await attachEmbeddedPostgres(short)).toEqual(embedded.connection);
  });

  it("does not use a socket directory that somebody else may have made", async () => {
    await using directory = await temporaryDirectory();
    const deep = join(directory.path, "d".repeat(90));
    const sockets = await makeSocketDirectory(deep);
    await chmod(sockets, 0o777);
    await expect(start(deep)).rejects.toThrow(/does not belong to this user alone/);
    vi.stubEnv("TMPDIR", `${tmpdir()}//`);
    await expect(start(deep)).rejects.toThrow(/does not belong to this user alone/);
    await expect(attachEmbeddedPostgres(deep)).rejects.toThrow(/does not belong to this user/);
    if (process.getuid?.() === 0) {
      const nobody = 65_534;
      await chmod(sockets, 0o700);
      await chown(sockets, nobody, nobody);
      await expect(start(deep)).rejects.toThrow(/does not belong to this user alone/);
    }
    await rmdir(sockets);
  });

  it("regression: says that the temporary directory's path is too long for a socket as well: the address was in use, or another process served the database", async () => {
    await using directory = await temporaryDirectory();
    const deep = join(directory.path, "d".repeat(90));
    await mkdir(deep);
    vi.stubEnv("TMPDIR", deep);
    await expect(start(join(deep, "data"))).rejects.toThrow(
      /\(the path is too long\): set TMPDIR or RELAY_DATA_DIR to a shorter path$/,
    );
  });

  it("works in a directory whose path is too long for a socket", async () => {
    await using directory = await temporaryDirectory();
    const deep = join(directory.path, "d".repeat(90));
    await using embedded = await start(deep);
    expect(Buffer.byteLength(socketPath(embedded.connection.host))).toBeLessThan(104);
    expect(await attachEmbeddedPostgres(deep)).toEqual(embedded.connection);
    await using database = open(embedded.connection);
    expect(await database.run("SELECT 1 AS one")).toEqual([{ one: 1 }]);
  });

  it("regression: serves where the file system of the data directory has no sockets, as a directory of the host in a container: the start failed with a stack", async () => {
    await using directory = await temporaryDirectory();
    const run = join(directory.path, "run");
    const listen = Server.prototype.listen;
    const refusing = vi.spyOn(Server.prototype, "listen").mockImplementation(function refuse(
      this: Server,
      ...given: unknown[]
    ) {
      if (!String(given[0]).startsWith(run)) return Reflect.apply(listen, this, given) as Server;
      process.nextTick(() => this.emit("error", new Error("listen EPERM")));
      return this;
    });
    {
      await using embedded = await start(directory.path);
      expect(embedded.connection.host).not.toBe(run);
      expect(await attachEmbeddedPostgres(directory.path)).toEqual(embedded.connection);
      await using database = open(embedded.connection);
      expect(await database.run("SELECT 1 AS one")).toEqual([{ one: 1 }]);
    }
    refusing.mockRestore();
    await using moved = await start(directory.path);
    expect(moved.connection.host).toBe(run);
    expect(await attachEmbeddedPostgres(directory.path)).toEqual(moved.connection);
  });

  it("regression: is found where its sockets are, by processes with another temporary directory: keys create said that it serves no database", async () => {
    await using directory = await temporaryDirectory();
    const deep = join(directory.path, "d".repeat(90));
    await using embedded = await start(deep);
    vi.stubEnv("TMPDIR", directory.path);
    expect(await attachEmbeddedPostgres(deep)).toEqual(embedded.connection);
    vi.stubEnv("TMPDIR", join(directory.path, "missing"));
    const other = join(directory.path, "e".repeat(90));
    await expect(start(other)).rejects.toThrow(/cannot be made .*: set TMPDIR/);
  });

  it("regression: needs nothing of PGPORT, PGSSLMODE and the like, which are for another server: it was not found, or asked for TLS", async () => {
    await using directory = await temporaryDirectory();
    vi.stubEnv("PGPORT", "5433");
    vi.stubEnv("PGSSLMODE", "require");
    await using embedded = await start(directory.path);
    await using database = open(embedded.connection);
    expect(await database.run("SELECT 1 AS one")).toEqual([{ one: 1 }]);
  });

  it("attaches to nothing where nothing runs", async () => {
    await using directory = await temporaryDirectory();
    expect(await attachEmbeddedPostgres(directory.path)).toBeNull();
  });
});
