import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { PassThrough } from "node:stream";
import { expect, it } from "vitest";
import type { FirstKey } from "../../../src/app/first-key.ts";
import type { RunningRelay } from "../../../src/app/start-relay.ts";
import { printWelcome } from "../../../src/cli/start/welcome.ts";
import { loadConfig } from "../../../src/config/load-config.ts";
import { silentLogger } from "../../support/silent-logger.ts";

const KEY = "rk_testtest_0123456789abcdefghijklmnop";
const USABLE: FirstKey = { kind: "usable", key: KEY };
const CURL = "sleep 1; curl";

/** Returns what a start prints with these settings beside an API that has no project. */
async function welcome(env: Record<string, string>, key = USABLE): Promise<string> {
  await using api = createServer((_, response) => response.end('{"data":[]}'));
  api.listen(0, "127.0.0.1");
  await once(api, "listening");
  const config = loadConfig({ RELAY_API_HOST: "127.0.0.1", ...env });
  const ports = { apiPort: (api.address() as AddressInfo).port, ingestPort: 8081, opsPort: 9090 };
  const relay = { ...ports, publicIngestUrl: "http://localhost:8081" } as RunningRelay;
  const [stdout, stderr] = [new PassThrough({ encoding: "utf8" }), new PassThrough()];
  const io = { argv: [], env, signal: AbortSignal.timeout(60_000), stdin: new PassThrough() };
  await printWelcome({ ...io, stdout, stderr }, { config, relay, key, logger: silentLogger });
  api.closeAllConnections();
  return String(stdout.read());
}

it("shows a newcomer the key that was made, and lines to paste with it", async () => {
  const printed = await welcome({});
  expect(printed).toContain(`API key         ${KEY}\n`);
  expect(printed).toContain(`${CURL} -s '`);
  expect(printed).toContain(`-H "Authorization: Bearer ${KEY}"`);
});

it("repeats nowhere a key that the operator gave, as output is often collected", async () => {
  const printed = await welcome({ RELAY_BOOTSTRAP_API_KEY: KEY });
  expect(printed).toContain("API key         RELAY_BOOTSTRAP_API_KEY, as set\n");
  expect(printed).toContain('-H "Authorization: Bearer ${RELAY_BOOTSTRAP_API_KEY:?');
  expect(printed).toContain(CURL);
  expect(printed).not.toContain(KEY);
});

it("shows no lines to paste where they would not work, and no key beside a PostgreSQL by URL", async () => {
  const elsewhere = await welcome({ RELAY_INGEST_HOST: "192.0.2.1" });
  expect(elsewhere).toContain(KEY);
  expect(elsewhere).not.toContain(CURL);
  const clustered = await welcome({
    DATABASE_URL: "postgresql://relay@db.example/relay",
    RELAY_ENCRYPTION_KEY: Buffer.alloc(32).toString("base64"),
    RELAY_BOOTSTRAP_API_KEY: KEY,
  });
  expect(clustered).toContain("Management API  http://127.0.0.1:");
  expect(clustered).not.toContain("API key");
  expect(clustered).not.toContain(CURL);
});
