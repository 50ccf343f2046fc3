import { randomBytes } from "node:crypto";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { makeBundleReader } from "../../../src/adapters/postgres/bundle-reader.ts";
import { startConfigFeed } from "../../../src/adapters/postgres/config-feed.ts";
import { makeConfigStore } from "../../../src/adapters/postgres/config-store.ts";
import { openDatabase, type Database } from "../../../src/adapters/postgres/database.ts";
import { makeApiKeyStore } from "../../../src/adapters/postgres/key-store.ts";
import { migrate } from "../../../src/adapters/postgres/migrate.ts";
import { makeSealedRows } from "../../../src/adapters/postgres/sealed-rows.ts";
import { ensureSetting } from "../../../src/adapters/postgres/settings.ts";
import { warnOfPooler } from "../../../src/adapters/postgres/warn-of-pooler.ts";
import type { ConfigChange } from "../../../src/domain/config-store.ts";
import { startEmbeddedPostgres } from "../../../src/embedded/pglite/start.ts";
import { reencryptAll } from "../../../src/management/reencrypt.ts";
import { UsageError } from "../../../src/domain/errors.ts";
import { makeSecretBox } from "../../../src/management/secret-box.ts";
import { PGLITE_TEMPLATE, temporaryDirectory } from "../../support/postgres.ts";
import {
  destinationRow,
  endpointRow,
  projectRow,
  TEST_BOX_KEY,
  testBox,
} from "../../support/postgres-rows.ts";
import { toError } from "../../../src/domain/thrown.ts";
import { realClock } from "../../support/clickhouse.ts";
import { makeSilentLogger, silentLogger } from "../../support/silent-logger.ts";
import { startPostgres } from "../../support/stores/postgres.ts";
import { skipOrFail } from "../../support/stores/skip-or-fail.ts";
import { until } from "../../support/wait-for.ts";

type Connection = Parameters<typeof openDatabase>[0]["connection"];
interface Server extends AsyncDisposable {
  readonly connection: Connection;
}

async function startPglite(): Promise<Server> {
  const directory = await temporaryDirectory();
  const embedded = await startEmbeddedPostgres({
    dataDir: directory.path,
    logger: silentLogger,
    templateFile: PGLITE_TEMPLATE,
  });
  return {
    connection: embedded.connection,
    async [Symbol.asyncDispose]() {
      await embedded[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
}

/** Makes a database to be empty for sure: the server may be the user's own, with data in it. */
async function makeEmptyDatabase(serverUrl: string, options = ""): Promise<string> {
  await using database = openDatabase({
    connection: { connectionString: serverUrl },
    maxConnections: 1,
    logger: silentLogger,
  });
  const name = `relay_test_${randomBytes(6).toString("hex")}`;
  await database.run(`CREATE DATABASE ${name} ${options}`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.href;
}

let postgres: Server | null = null;
try {
  const server = await startPostgres();
  postgres = {
    connection: { connectionString: await makeEmptyDatabase(server.url) },
    [Symbol.asyncDispose]: async () => server[Symbol.asyncDispose](),
  };
} catch (error) {
  skipOrFail("PostgreSQL", error);
}

const servers: [string, (() => Promise<Server>) | null][] = [
  ["PGlite", startPglite],
  ["PostgreSQL", postgres === null ? null : async () => postgres],
];

function openByUrl(url: string): Database {
  return openDatabase({
    connection: { connectionString: url },
    maxConnections: 1,
    logger: silentLogger,
  });
}

describe.skipIf(postgres === null)("a PostgreSQL whose defaults are others", () => {
  it("regression: is read and written as any: times could not be read, and a project was deleted with endpoints in it", async () => {
    const { connection } = postgres as Server;
    const url = await makeEmptyDatabase(String(connection.connectionString));
    await using admin = openByUrl(url);
    const name = new URL(url).pathname.slice(1);
    await admin.run(`ALTER DATABASE ${name} SET datestyle = 'SQL, DMY'`);
    await admin.run(`ALTER DATABASE ${name} SET default_transaction_isolation = 'repeatable read'`);
    await using database = openByUrl(url);
    const [row] = await database.run("SELECT timestamptz '2026-11-26 01:02:03.456Z' AS at");
    expect(row?.["at"]).toEqual(new Date("2026-11-26T01:02:03.456Z"));
    const [level] = await database.transaction((run) => run("SHOW transaction_isolation"));
    expect(level).toEqual({ transaction_isolation: "read committed" });
  });

  it("regression: a user that may make no tables finds a migrated database up to date: it never became ready", async () => {
    const { connection } = postgres as Server;
    const url = await makeEmptyDatabase(String(connection.connectionString));
    await using database = openByUrl(url);
    await migrate(database);
    const role = new URL(url).pathname.slice(1);
    await database.run(`CREATE ROLE ${role}`);
    await database.run(`GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA public TO ${role}`);
    await database.run(`SET ROLE ${role}`);
    expect(await migrate(database)).toEqual([]);
    await database.run(`RESET ROLE; DROP OWNED BY ${role}; DROP ROLE ${role}`);
  });

  const inEncoding = (encoding: string) =>
    makeEmptyDatabase(
      String((postgres as Server).connection.connectionString),
      `TEMPLATE template0 ENCODING '${encoding}' LC_COLLATE 'C' LC_CTYPE 'C'`,
    );

  it("regression: a new database whose encoding lacks characters is refused: names with them were internal errors", async () => {
    await using database = openByUrl(await inEncoding("LATIN1"));
    const refused = await migrate(database).catch(toError);
    expect(refused).toBeInstanceOf(UsageError);
    expect((refused as UsageError).message).toContain(
      "encoding LATIN1, which lacks most of the characters of names: make one with TEMPLATE template0 ENCODING 'UTF8'",
    );
  });

  it("one that keeps the bytes as they come holds any name", async () => {
    await using database = openByUrl(await inEncoding("SQL_ASCII"));
    await migrate(database);
    const keys = makeApiKeyStore(database);
    await keys.ensureOrganization("日本 😀", "org_1", 0);
    expect(await keys.findOrganization("日本 😀")).toBe("org_1");
  });
});

describe.each(servers)("configuration store on %s", (name, start) => {
  if (start === null) {
    it.skip("needs a server");
    return;
  }
  let server: Server;
  let database: Database;
  let orgId: string;
  const open = (maxConnections = 4) =>
    openDatabase({ connection: server.connection, maxConnections, logger: silentLogger });
  const newId = () => randomBytes(8).toString("hex");

  beforeAll(async () => {
    server = await start();
    database = open();
  });
  afterAll(async () => {
    await database[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  });

  async function makeParents() {
    const store = makeConfigStore(database);
    const project = projectRow({ id: `prj_${newId()}`, orgId, slug: newId() });
    await store.projects.insert(project);
    const endpoint = endpointRow({ id: `ep_${newId()}`, orgId, projectId: project.id });
    await store.endpoints.insert(endpoint);
    return { store, project, endpoint };
  }

  it("regression: connections that share one session, as behind a pooler in transaction mode, are warned of: nothing said why changes were not pushed", async () => {
    await using one = open();
    await using other = open();
    const warnings: string[] = [];
    const logger = makeSilentLogger((level, message) => warnings.push(`${level} ${message}`));
    await warnOfPooler(one, other, logger);
    const areShared = name === "PGlite";
    expect(warnings).toEqual(areShared ? ["warn postgres.pooler_not_in_session_mode"] : []);
  });

  it("is migrated once, however many processes begin at the same time", async () => {
    const databases = [open(1), open(1), open(1)];
    const applied = await Promise.all(databases.map(async (one) => migrate(one)));
    expect(applied.flat()).toEqual(["0001-configuration"]);
    expect(await migrate(database)).toEqual([]);
    for (const one of databases) await one[Symbol.asyncDispose]();
    const keys = makeApiKeyStore(database);
    orgId = await keys.ensureOrganization("one", "org_one", 1_000);
  });

  it("gives back rows as they were stored", async () => {
    const { store, project, endpoint } = await makeParents();
    expect(await store.projects.find(orgId, project.id)).toEqual(project);
    const found = await store.endpoints.find(orgId, endpoint.id);
    expect({ ...found, sealed: null }).toEqual({ ...endpoint, sealed: null });
    expect(Buffer.from(found!.sealed).equals(Buffer.from(endpoint.sealed))).toBe(true);
    const destination = destinationRow({
      id: `dst_${newId()}`,
      orgId,
      endpointId: endpoint.id,
      rateLimitMax: Number.MAX_SAFE_INTEGER,
      rateLimitWindow: "day",
    });
    await store.destinations.insert(destination);
    const [row] = await store.destinations.children(orgId, endpoint.id);
    expect({ ...row, sealed: null }).toEqual({ ...destination, sealed: null });
  });

  it("pages newest first, ties broken by id, without an organization's neighbours", async () => {
    const { store, project } = await makeParents();
    const ids = ["a", "c", "b"].map((letter) => `ep_${letter}${newId()}`);
    for (const id of ids)
      await store.endpoints.insert(
        endpointRow({ id, orgId, projectId: project.id, createdAtMs: 5_000 }),
      );
    const page = await store.endpoints.page(orgId, project.id, { offset: 0, limit: 2 });
    expect(page.items.map(({ id }) => id)).toEqual([ids[1], ids[2]]);
    expect(page.total).toBe(4);
    expect(await store.endpoints.page("org_other", project.id, { offset: 0, limit: 2 })).toEqual({
      items: [],
      total: 0,
    });
  });

  it("reaches no row of another organization, and none that is deleted", async () => {
    const { store, endpoint } = await makeParents();
    await store.endpoints.update("org_other", endpoint.id, { name: "stolen" });
    await store.endpoints.remove("org_other", endpoint.id, 2_000);
    expect(await store.endpoints.find(orgId, endpoint.id)).toMatchObject({ name: endpoint.name });
    expect(await store.endpoints.find("org_other", endpoint.id)).toBeNull();
    await store.endpoints.remove(orgId, endpoint.id, 2_000);
    expect(await store.endpoints.find(orgId, endpoint.id)).toBeNull();
    await store.endpoints.update(orgId, endpoint.id, { status: "paused" });
    expect(
      await makeBundleReader(database).bundles(keysOf({ endpointIds: [endpoint.id] })),
    ).toEqual([]);
  });

  it("names the constraint when a value is taken", async () => {
    const { store, project } = await makeParents();
    const twin = { ...project, id: `prj_${newId()}` };
    await expect(store.projects.insert(twin)).rejects.toMatchObject({
      code: "unique_violation",
      constraint: "projects_slug",
    });
  });

  it("writes all or nothing, even when a failed statement was overlooked", async () => {
    const { store, project } = await makeParents();
    const id = `ep_${newId()}`;
    await expect(
      store.write(async (session) => {
        await session.endpoints.insert(endpointRow({ id, orgId, projectId: project.id }));
        await session.endpoints
          .insert(endpointRow({ id, orgId, projectId: project.id }))
          .catch(() => undefined);
      }),
    ).rejects.toThrow("rolled back");
    expect(await store.endpoints.find(orgId, id)).toBeNull();
  });

  /** Says what connections that are made from now on may do. */
  async function setReadOnly(readOnly: "on" | "off"): Promise<void> {
    const [row] = await database.run("SELECT current_database() AS name");
    await database.run(
      `ALTER DATABASE "${String(row?.["name"])}" SET default_transaction_read_only = ${readOnly}`,
    );
  }

  it.skipIf(name === "PGlite")(
    "regression: takes no write where all is made: no process could start while PostgreSQL was read-only",
    async () => {
      const make = () => new Uint8Array([1]);
      const setting = await ensureSetting(database, "made", make);
      await setReadOnly("on");
      await using pool = open(2);
      try {
        expect(await migrate(pool)).toEqual([]);
        expect(await ensureSetting(pool, "made", make)).toEqual(setting);
        await expect(ensureSetting(pool, "not made", make)).rejects.toMatchObject({
          code: "unavailable",
        });
      } finally {
        await setReadOnly("off");
      }
    },
  );

  it.skipIf(name === "PGlite")(
    "writes again after a failover: connections to what is a standby now were kept as long as they were used",
    async () => {
      await setReadOnly("on");
      await using pool = open(2);
      const write = () =>
        pool.transaction((run) =>
          run("INSERT INTO settings (name, value) VALUES ($1, '')", [newId()]),
        );
      try {
        await expect(write()).rejects.toMatchObject({ code: "unavailable" });
      } finally {
        await setReadOnly("off");
      }
      await write();
    },
  );

  it("keeps a project from being deleted while an endpoint is made in it", async () => {
    const { store, project, endpoint } = await makeParents();
    await store.endpoints.remove(orgId, endpoint.id, 2_000);
    const outcomes = await Promise.allSettled([
      store.write(async (session) => {
        if ((await session.projects.hold(orgId, project.id)) === null) throw new Error("gone");
        await session.endpoints.insert(
          endpointRow({ id: `ep_${newId()}`, orgId, projectId: project.id }),
        );
      }),
      store.write(async (session) => {
        await session.projects.lock(orgId, project.id);
        const { total } = await session.endpoints.page(orgId, project.id, { offset: 0, limit: 1 });
        if (total > 0) throw new Error("not empty");
        await session.projects.remove(orgId, project.id, 3_000);
      }),
    ]);
    expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
  });

  it.runIf(name === "PostgreSQL").each(["lock", "hold"] as const)(
    "lets nobody lock a row that another write took by %s before that has ended",
    async (first) => {
      const { store, project } = await makeParents();
      const steps: string[] = [];
      let take: () => void = () => undefined;
      const taken = new Promise<void>((resolve) => (take = resolve));
      let letGo: () => void = () => undefined;
      const mayEnd = new Promise<void>((resolve) => (letGo = resolve));
      const one = store.write(async (session) => {
        await session.projects[first](orgId, project.id);
        take();
        await mayEnd;
        steps.push("ended");
      });
      await taken;
      const other = store.write(async (session) => {
        await session.projects.lock(orgId, project.id);
        steps.push("locked");
      });
      const waitsSql =
        "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
      await expect
        .poll(async () => steps.length + (await database.run(waitsSql)).length, { timeout: 20_000 })
        .toBe(1);
      letGo();
      await Promise.all([one, other]);
      expect(steps).toEqual(["ended", "locked"]);
    },
  );

  it.runIf(name === "PostgreSQL")(
    "does both of two writes that wait for each other: two PATCHes that took each other's slug answered 503 to one",
    async () => {
      const { store, project } = await makeParents();
      const { project: other } = await makeParents();
      let letGo: () => void = () => undefined;
      const bothHold = new Promise<void>((resolve) => {
        letGo = resolve;
      });
      let holding = 0;
      const rename = (first: string, second: string) =>
        store.write(async (session) => {
          await session.projects.update(orgId, first, { name: `first of ${second}` });
          holding += 1;
          if (holding === 2) letGo();
          await bothHold;
          await session.projects.update(orgId, second, { name: `second of ${first}` });
        });
      await Promise.all([rename(project.id, other.id), rename(other.id, project.id)]);
      // The writes were done one after the other, the second of them begun twice.
      expect(holding).toBe(3);
      const names = [project, other].map(
        async ({ id }) => (await store.projects.find(orgId, id))!.name,
      );
      expect([
        [`first of ${other.id}`, `second of ${project.id}`],
        [`second of ${other.id}`, `first of ${project.id}`],
      ]).toContainEqual(await Promise.all(names));
    },
  );

  it("gives up a write that is in others' way however often it is begun", async () => {
    let tries = 0;
    const write = database.transaction(async () => {
      tries += 1;
      throw Object.assign(new Error("deadlock detected"), { code: "40P01" });
    });
    await expect(write).rejects.toMatchObject({ code: "unavailable" });
    expect(tries).toBe(4);
  });

  it.each([
    ["cannot read its files", "io_error"],
    ["has them on a file system that is read-only, or lacks a right", "insufficient_privilege"],
  ])(
    "regression: a server that %s is a store that is down: the API answered 500, as for a bug",
    async (_, condition) => {
      const failing = database.run(
        `DO $$ BEGIN RAISE 'could not open file' USING ERRCODE = '${condition}'; END $$`,
      );
      await expect(failing).rejects.toMatchObject({ code: "unavailable" });
    },
  );

  it("reads endpoints with their destinations by any of their names", async () => {
    const { store, endpoint } = await makeParents();
    const kept = destinationRow({ id: `dst_${newId()}`, orgId, endpointId: endpoint.id });
    const gone = destinationRow({ id: `dst_${newId()}`, orgId, endpointId: endpoint.id });
    await store.destinations.insert(kept);
    await store.destinations.insert(gone);
    await store.destinations.remove(orgId, gone.id, 2_000);
    const reader = makeBundleReader(database);
    for (const keys of [
      { tokens: [endpoint.token] },
      { endpointIds: [endpoint.id] },
      { destinationIds: [kept.id] },
      { destinationIds: [gone.id] },
      { tokens: [endpoint.token], endpointIds: [endpoint.id], destinationIds: [kept.id] },
    ]) {
      const bundles = await reader.bundles(keysOf(keys));
      expect(bundles).toHaveLength(1);
      expect(bundles[0]?.endpoint.id).toBe(endpoint.id);
      expect(bundles[0]?.destinations.map(({ id }) => id)).toEqual([kept.id]);
    }
    expect(await reader.bundles(keysOf({ tokens: ["unknown"] }))).toEqual([]);
  });

  it("reads several endpoints at once, each with its own destinations, oldest first, or with none", async () => {
    const wanted = [];
    for (const count of [2, 0, 3]) {
      const { store, endpoint } = await makeParents();
      const destinations = Array.from({ length: count }, (_, index) =>
        destinationRow({
          id: `dst_${newId()}`,
          orgId,
          endpointId: endpoint.id,
          createdAtMs: index,
        }),
      );
      for (const row of destinations.toReversed()) await store.destinations.insert(row);
      wanted.push({ endpoint, destinations });
    }
    const endpointIds = wanted.map(({ endpoint }) => endpoint.id);
    const bundles = await makeBundleReader(database).bundles(keysOf({ endpointIds }));
    expect(bundles).toHaveLength(3);
    expect(bundles).toEqual(expect.arrayContaining(wanted));
  });

  it("regression: reads an endpoint's settings once, however many destinations it has: an answer held them for each", async () => {
    const { store, project } = await makeParents();
    const settingsBytes = 64 * 1024;
    const id = `ep_${newId()}`;
    const sealed = testBox.seal({ secret: "s".repeat(settingsBytes), config: {} }, id);
    const endpoint = endpointRow({ id, orgId, projectId: project.id, sealed });
    await store.endpoints.insert(endpoint);
    const destinations = Array.from({ length: 20 }, (_, index) =>
      destinationRow({ id: `dst_${newId()}`, orgId, endpointId: endpoint.id, createdAtMs: index }),
    );
    for (const row of destinations) await store.destinations.insert(row);
    let answeredBytes = 0;
    const measured: Database = {
      ...database,
      async run(text, parameters) {
        const rows = await database.run(text, parameters);
        for (const value of rows.flatMap((row) => Object.values(row)))
          if (value instanceof Uint8Array) answeredBytes += value.byteLength;
        return rows;
      },
    };
    const bundles = await makeBundleReader(measured).bundles(
      keysOf({ endpointIds: [endpoint.id] }),
    );
    expect(bundles).toEqual([{ endpoint, destinations }]);
    expect(answeredBytes).toBeLessThan(2 * settingsBytes);
  });

  it("names the endpoints made last, those that are deleted left out", async () => {
    const { store, endpoint: first } = await makeParents();
    const { endpoint: second } = await makeParents();
    const { endpoint: gone } = await makeParents();
    await store.endpoints.remove(orgId, gone.id, 2_000);
    const reader = makeBundleReader(database);
    const all = await reader.newestEndpoints(10_000);
    expect(all).toEqual(all.toSorted().toReversed());
    expect(all).toEqual(expect.arrayContaining([first.id, second.id]));
    expect(all).not.toContain(gone.id);
    expect(await reader.newestEndpoints(1)).toEqual(all.slice(0, 1));
  });

  it("keeps keys by their hash, and revokes one once", async () => {
    const keys = makeApiKeyStore(database);
    expect(await keys.ensureOrganization("one", "org_again", 2_000)).toBe(orgId);
    expect(await keys.findOrganization("nobody")).toBeNull();
    const row = {
      id: `key_${newId()}`,
      orgId,
      publicPart: "rk_abcdefgh",
      scopes: ["read"] as const,
      createdAtMs: 5_000,
      revokedAtMs: null,
    };
    const hash = randomBytes(32);
    await keys.insertKey(row, hash);
    expect(await keys.findKey(hash)).toEqual(row);
    expect(await keys.findKey(randomBytes(32))).toBeNull();
    expect(await keys.revokeKey("org_other", row.id, 6_000)).toBe(false);
    expect(await keys.revokeKey(orgId, row.id, 6_000)).toBe(true);
    expect(await keys.revokeKey(orgId, row.id, 7_000)).toBe(false);
    expect(await keys.listKeys(orgId)).toContainEqual({ ...row, revokedAtMs: 6_000 });
    const other = await keys.ensureOrganization("two", "org_two", 1_000);
    const older = { ...row, id: `key_${newId()}`, orgId: other };
    const newer = { ...row, id: `key_${newId()}`, orgId: other, createdAtMs: 5_001 };
    for (const one of [older, newer]) await keys.insertKey(one, randomBytes(32));
    expect(await keys.listKeys(other)).toEqual([newer, older]);
  });

  it("seals every row anew under another key, deleted ones too", async () => {
    const { store, endpoint } = await makeParents();
    const destination = destinationRow({ id: `dst_${newId()}`, orgId, endpointId: endpoint.id });
    await store.destinations.insert(destination);
    await store.destinations.remove(orgId, destination.id, 2_000);
    const key = randomBytes(32);
    const box = makeSecretBox({ key, retiredKeys: [TEST_BOX_KEY], randomBytes });
    const rows = makeSealedRows(database);
    const { rewritten } = await reencryptAll(rows, box);
    expect(rewritten).toBeGreaterThanOrEqual(2);
    const [row] = await rows.readAfter("destinations", destination.id.slice(0, -1), 1);
    expect(makeSecretBox({ key, randomBytes }).open(row!.sealed, destination.id)).toEqual([
      { secret: "whsec_one", signsUntilMs: null },
    ]);
    expect(await rows.replace("destinations", destination, destination.sealed)).toBe(false);
  });

  it("makes a shared setting once", async () => {
    const values = await Promise.all(
      [1, 2, 3].map(async (byte) =>
        ensureSetting(database, "shared", () => new Uint8Array([byte])),
      ),
    );
    expect(new Set(values.map((value) => Buffer.from(value).toString("hex"))).size).toBe(1);
    let isFirst = true;
    const asked: Database = {
      ...database,
      /** Looks before another process has made it, and writes after. */
      async run(text, parameters) {
        const rows = await database.run(text, parameters);
        const answer = isFirst ? [] : rows;
        isFirst = false;
        return answer;
      },
    };
    expect(await ensureSetting(asked, "shared", () => new Uint8Array([4]))).toEqual(values[0]);
    expect(await ensureSetting(database, "shared", () => new Uint8Array([5]))).toEqual(values[0]);
  });

  it.runIf(name === "PostgreSQL")(
    "pushes each committed change, and tells of a gap whenever it listens again",
    async () => {
      const { store, endpoint } = await makeParents();
      const changes: ConfigChange[] = [];
      let gaps = 0;
      const lines: unknown[] = [];
      await using feed = startConfigFeed({
        connection: server.connection,
        clock: realClock,
        logger: makeSilentLogger((level, message, fields) => lines.push([level, message, fields])),
        explain: toError,
        onChange: (change) => changes.push(change),
        onGap: () => (gaps += 1),
      });
      await until(() => feed.listening(), "the first listen");
      expect(gaps).toBe(1);
      const destination = destinationRow({ id: `dst_${newId()}`, orgId, endpointId: endpoint.id });
      await store.destinations.insert(destination);
      await store.endpoints.update(orgId, endpoint.id, { status: "paused" });
      await until(() => changes.length === 2, "two changes");
      const ofEndpoint = { endpointId: endpoint.id, token: endpoint.token };
      expect(changes).toEqual([
        { ...ofEndpoint, destinationId: destination.id },
        { ...ofEndpoint, destinationId: null },
      ]);
      await database.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '%config feed'",
      );
      await until(() => gaps === 2, "the second listen");
      expect(lines).toEqual([
        ["warn", "config.feed_lost", { err: expect.any(Error), times: 1 }],
        ["info", "config.feed_restored", { afterMs: expect.any(Number), untold: 0 }],
      ]);
      await store.endpoints.update(orgId, endpoint.id, { status: "active" });
      await until(() => changes.length === 3, "the change after it");
    },
  );

  // PGlite has one session and no time limits.
  describe.runIf(name === "PostgreSQL")("takes no work", () => {
    const openOne = (options: Connection = {}) =>
      openDatabase({
        connection: { ...server.connection, ...options },
        maxConnections: 1,
        logger: silentLogger,
      });
    const unavailable = { code: "unavailable", cause: expect.anything() };

    it("and fails a write after one time limit: its ROLLBACK waited for as long once more", async () => {
      await using slow = openOne({ query_timeout: 2_000 });
      await slow.run("SELECT 1");
      const queries = vi.spyOn(pg.Client.prototype, "query");
      const write = slow.transaction(async (run) => run("SELECT pg_sleep(10)", []));
      await expect(write).rejects.toMatchObject(unavailable);
      expect(queries.mock.calls.flat()).not.toContain("ROLLBACK");
      queries.mockRestore();
      await slow.run("SELECT 1");
    });

    it("in time, and is asked over another connection next", async () => {
      await using slow = openOne({ query_timeout: 1_000 });
      await expect(slow.run("SELECT pg_sleep(10)")).rejects.toMatchObject(unavailable);
      expect(await slow.run("SELECT 1 AS one")).toEqual([{ one: 1 }]);
    });

    it("over an idle connection that it has cut, which is told, and replaced", async () => {
      const lines: string[] = [];
      await using idle = openDatabase({
        connection: server.connection,
        maxConnections: 1,
        logger: makeSilentLogger((level, message) => lines.push(`${level} ${message}`)),
      });
      const [row] = await idle.run("SELECT pg_backend_pid() AS pid");
      await database.run("SELECT pg_terminate_backend($1)", [row?.["pid"]]);
      await until(() => lines.length > 0, "the lost connection");
      expect(lines).toEqual(["warn postgres.connection_lost"]);
      expect(await idle.run("SELECT 1 AS one")).toEqual([{ one: 1 }]);
    });

    it("when its own time limit ends a statement: that was an internal error", async () => {
      await using limited = openOne({ statement_timeout: 100 });
      const sleep = "SELECT pg_sleep(5)";
      await expect(limited.run(sleep, [])).rejects.toMatchObject(unavailable);
      const write = limited.transaction(async (run) => run(sleep, []));
      await expect(write).rejects.toMatchObject(unavailable);
    });

    it("when the server ends a transaction in which nothing came for long: that was an internal error", async () => {
      await using limited = openOne();
      const pause = new Int32Array(new SharedArrayBuffer(4));
      /** Holds up the process, so that what the server has sent meanwhile is read only once the next statement is underway. */
      const write = async () =>
        limited.transaction(async (run) => {
          await run("SET LOCAL idle_in_transaction_session_timeout = 1");
          Atomics.wait(pause, 0, 0, 200);
          await run("SELECT 1");
        });
      // A server that is slow to end it takes the statement.
      const outcome = async (): Promise<unknown> => {
        for (;;)
          try {
            await write();
          } catch (error) {
            return error;
          }
      };
      expect(await outcome()).toMatchObject(unavailable);
      await limited.run("SELECT 1");
    });

    it("over a read-only connection, and is asked over another one next: it stayed in use", async () => {
      await using demoted = openOne();
      const write = async () =>
        demoted.transaction(async (run) => run("CREATE TABLE IF NOT EXISTS written (id int)", []));
      await demoted.run("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY");
      await expect(write()).rejects.toMatchObject(unavailable);
      await write();
    });
  });
});

function keysOf(keys: {
  tokens?: readonly string[];
  endpointIds?: readonly string[];
  destinationIds?: readonly string[];
}) {
  return { tokens: [], endpointIds: [], destinationIds: [], ...keys };
}

describe("a store that cannot be reached", () => {
  it("is unavailable, with the driver's reason as cause", async () => {
    const connections: Connection[] = [
      { host: "127.0.0.1", port: 1, user: "x", database: "x" },
      { host: "/nowhere", user: "x", database: "x" },
    ];
    for (const connection of connections) {
      await using database = openDatabase({ connection, maxConnections: 1, logger: silentLogger });
      const unavailable = { code: "unavailable", cause: expect.anything() };
      await expect(database.run("SELECT 1")).rejects.toMatchObject(unavailable);
      await expect(database.transaction(async () => 1)).rejects.toMatchObject(unavailable);
    }
  });

  it("is asked again and again by the feed until it is told to end", async () => {
    const scheduled: number[] = [];
    let next: () => void = () => undefined;
    const feed = startConfigFeed({
      connection: { host: "127.0.0.1", port: 1, user: "x", database: "x" },
      clock: {
        monotonic: () => 0,
        schedule(delayMs, callback) {
          scheduled.push(delayMs);
          next = callback;
          return () => undefined;
        },
      },
      logger: silentLogger,
      explain: toError,
      onChange: () => undefined,
      onGap: () => undefined,
    });
    for (let round = 1; round <= 3; round += 1) {
      await until(() => scheduled.length === round, "another try");
      next();
    }
    expect(scheduled.slice(0, 3)).toEqual([250, 500, 1_000]);
    await feed[Symbol.asyncDispose]();
  });
});
