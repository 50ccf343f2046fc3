import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runRelay } from "../support/relay-process.ts";
import { freePorts } from "../support/stores/free-port.ts";

describe("relay migrate", () => {
  let dataDir: string;
  beforeAll(async () => {
    dataDir = await mkdtemp(join(tmpdir(), "relay-migrate-"));
  });
  afterAll(() => rm(dataDir, { recursive: true, force: true }));

  it("names the ClickHouse that cannot be reached in one line without credentials, exit 1: a stack was shown", async () => {
    const address = `127.0.0.1:${(await freePorts(1))[0]}/relay`;
    const { code, stderr } = await runRelay(["migrate"], {
      RELAY_DATA_DIR: dataDir,
      CLICKHOUSE_URL: `http://user:CANARY@${address}`,
    });
    expect(stderr).toBe(
      `relay: ClickHouse at http://${address} cannot be reached (ECONNREFUSED)\n`,
    );
    expect(code).toBe(1);
  });

  it("tells in one line what ClickHouse refuses, exit 1: a stack was shown", async () => {
    await using refusing = createServer((_, response) => {
      response
        .writeHead(403, { "x-clickhouse-exception-code": "516" })
        .end("Code: 516. DB::Exception: No such user.\nMore. (AUTHENTICATION_FAILED) (version 26)");
    });
    await new Promise<void>((resolve) => refusing.listen(0, "127.0.0.1", () => resolve()));
    const address = `127.0.0.1:${(refusing.address() as AddressInfo).port}/relay`;
    const { code, stderr } = await runRelay(["migrate"], {
      RELAY_DATA_DIR: dataDir,
      CLICKHOUSE_URL: `http://user:CANARY@${address}`,
    });
    expect(stderr).toBe(`relay: ClickHouse at http://${address} failed: No such user.\n`);
    expect(code).toBe(1);
  });

  it("tells in one line of a ClickHouse that is too old, exit 2: it was a setting that is unknown, in half a schema", async () => {
    await using old = createServer((request, response) => {
      request.resume();
      response.end('{"version":"24.8.14.39"}\n');
    });
    await new Promise<void>((resolve) => old.listen(0, "127.0.0.1", () => resolve()));
    const { code, stderr } = await runRelay(["migrate"], {
      RELAY_DATA_DIR: dataDir,
      CLICKHOUSE_URL: `http://127.0.0.1:${(old.address() as AddressInfo).port}/relay`,
    });
    expect(stderr).toBe(
      "relay: the ClickHouse of CLICKHOUSE_URL is version 24.8.14.39: 25.5 or newer is needed\n",
    );
    expect(code).toBe(2);
  });

  it("names the PostgreSQL that cannot be reached in one line without credentials, exit 1", async () => {
    const address = `127.0.0.1:${(await freePorts(1))[0]}/relay`;
    const { code, stderr } = await runRelay(["migrate"], {
      DATABASE_URL: `postgresql://user:CANARY@${address}`,
      RELAY_ENCRYPTION_KEY: Buffer.alloc(32).toString("base64"),
    });
    expect(stderr).toBe(
      `relay: PostgreSQL at postgresql://${address} cannot be reached (ECONNREFUSED)\n`,
    );
    expect(code).toBe(1);
  });

  it("from three places at once on one data directory succeeds in all: one beside another that ended lost its database", async () => {
    for (let round = 0; round < 3; round += 1) {
      const shared = await mkdtemp(join(tmpdir(), "relay-migrate-"));
      const all = await Promise.all(
        Array.from({ length: 3 }, () => runRelay(["migrate"], { RELAY_DATA_DIR: shared })),
      );
      await rm(shared, { recursive: true, force: true });
      expect(all.map(({ code, stderr }) => ({ code, stderr }))).toEqual(
        all.map(() => ({ code: 0, stderr: "" })),
      );
    }
  }, 240_000);
});
