import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { startConfigFeed } from "../../../src/adapters/postgres/config-feed.ts";
import { openDatabase, type Database } from "../../../src/adapters/postgres/database.ts";
import { toError } from "../../../src/domain/thrown.ts";
import { realClock } from "../../support/clickhouse.ts";
import { startTestPostgres, type TestPostgres } from "../../support/postgres.ts";
import { makeSilentLogger, silentLogger } from "../../support/silent-logger.ts";
import { startTlsFront, type TlsFront } from "../../support/tls-front.ts";
import { makeCertificates } from "../../support/undici-certificates.ts";
import { until } from "../../support/wait-for.ts";

const certificates = makeCertificates();

describe("PostgreSQL over TLS", () => {
  let postgres: TestPostgres;
  let front: TlsFront;
  let caFile: string;
  beforeAll(async () => {
    postgres = await startTestPostgres();
    const { host, port } = postgres.embedded.connection;
    const path = join(host, `.s.PGSQL.${port}`);
    front = await startTlsFront({ path }, certificates.good, "postgres");
    caFile = join(postgres.dataDir, "ca.pem");
  });
  afterAll(async () => {
    await front[Symbol.asyncDispose]();
    await postgres[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    await writeFile(caFile, certificates.ca);
    front.present(certificates.good);
  });

  function connection() {
    const { user, database } = postgres.embedded.connection;
    const url = `postgresql://${user}@127.0.0.1:${front.port}/${database}`;
    return { connectionString: `${url}?sslmode=verify-full&sslrootcert=${caFile}` };
  }

  function open(maxConnections: number): Database {
    return openDatabase({ connection: connection(), maxConnections, logger: silentLogger });
  }

  it.each(["expired", "wrongName", "selfSigned"] as const)(
    "regression: a certificate that is %s counts as unreachable, until it is renewed: the API answered 500",
    async (bad) => {
      await using database = open(1);
      front.present(certificates[bad]);
      await expect(database.run("SELECT 1")).rejects.toMatchObject({ code: "unavailable" });
      await expect(database.transaction((run) => run("SELECT 1"))).rejects.toMatchObject({
        code: "unavailable",
      });
      front.present(certificates.good);
      expect(await database.run("SELECT 1 AS one")).toEqual([{ one: 1 }]);
    },
  );

  it("regression: the feed outlasts a certificate file that is away while it connects anew: that ended the process", async () => {
    const reasons: unknown[] = [];
    await using feed = startConfigFeed({
      connection: connection(),
      clock: realClock,
      logger: makeSilentLogger((_level, _message, { err }: { err?: { code?: string } }) => {
        reasons.push(err?.code);
      }),
      explain: toError,
      onChange: () => undefined,
      onGap: () => undefined,
    });
    await until(feed.listening);
    await rm(caFile);
    front.cut();
    await until(() => reasons.includes("ENOENT"));
    await writeFile(caFile, certificates.ca);
    await until(feed.listening);
  });

  it("regression: a query that waits for a connection learns that a certificate file is away: the pool threw where nothing catches it", async () => {
    await using database = open(1);
    const waiting: Promise<unknown>[] = [];
    const holding = database.transaction(async (run) => {
      waiting.push(database.run("SELECT 1"));
      await rm(caFile);
      front.cut();
      await run("SELECT 1");
    });
    await expect(holding).rejects.toMatchObject({ code: "unavailable" });
    await expect(waiting[0]).rejects.toMatchObject({ cause: { code: "ENOENT" } });
    await writeFile(caFile, certificates.ca);
    expect(await database.run("SELECT 1 AS one")).toEqual([{ one: 1 }]);
  });
});
