import { createHmac, randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { makeApiKeyStore } from "../../src/adapters/postgres/key-store.ts";
import { makeLogger } from "../../src/adapters/pino/logger.ts";
import { startRelay, type RelayOptions, type RunningRelay } from "../../src/app/start-relay.ts";
import { makeSystemClock } from "../../src/app/system-clock.ts";
import { templateFile } from "../../src/app/template-file.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import type { ApiKeyRow } from "../../src/domain/config-store.ts";
import { makeIdGenerator } from "../../src/domain/ids.ts";
import { hashApiKey, makeApiKeys } from "../../src/management/api-keys.ts";
import { freePorts } from "./stores/free-port.ts";

/** A relay with all roles in the test's own process: the composition root with nothing replaced. */
export interface ApiRelay extends AsyncDisposable {
  readonly relay: RunningRelay;
  readonly dataDir: string;
  readonly apiUrl: string;
  readonly opsUrl: string;
  readonly ingestUrl: string;
  /** Returns every line it has logged. */
  log(): string;
  /** Creates a key for the organization with this id, or for a new one when null. */
  newKey(
    scopes: ApiKeyRow["scopes"],
    orgId: string | null,
  ): Promise<{ key: string; orgId: string }>;
  /** Returns the ingest URL of an endpoint, whoever owns it. */
  urlOf(endpointId: string): Promise<string>;
}

export async function startApiRelay(
  extra: Record<string, string> = {},
  over: Pick<RelayOptions, "apiRequestsPerSecond"> = {},
): Promise<ApiRelay> {
  const dataDir = await mkdtemp(join(tmpdir(), "relay-api-"));
  const lines: string[] = [];
  const destination = new Writable({
    write(chunk: Buffer, _, done) {
      lines.push(chunk.toString());
      done();
    },
  });
  const ingestPort = Number(extra["RELAY_INGEST_PORT"] ?? (await freePorts(1))[0]);
  const config = loadConfig({
    RELAY_DATA_DIR: dataDir,
    RELAY_API_PORT: "0",
    RELAY_INGEST_PORT: String(ingestPort),
    RELAY_OPS_PORT: "0",
    RELAY_API_HOST: "127.0.0.1",
    RELAY_INGEST_HOST: "127.0.0.1",
    RELAY_PUBLIC_INGEST_URL: `http://127.0.0.1:${ingestPort}`,
    RELAY_ALLOW_PRIVATE_RECEIVERS: "127.0.0.0/8",
    RELAY_PARTITIONS: "4",
    RELAY_VERIFY_THREADS: "1",
    ...extra,
  });
  const relay = await startRelay({
    config,
    clock: makeSystemClock(),
    logger: makeLogger({ level: "debug", pretty: false, destination }),
    templateFile: templateFile(),
    ...over,
  });
  const { database } = relay.configStore;
  const keyStore = makeApiKeyStore(database);
  const newId = makeIdGenerator();
  const keys = makeApiKeys({ keys: keyStore, now: Date.now, randomBytes, newId });
  return {
    relay,
    dataDir,
    apiUrl: `http://127.0.0.1:${relay.apiPort}`,
    opsUrl: `http://127.0.0.1:${relay.opsPort}`,
    ingestUrl: `http://127.0.0.1:${ingestPort}`,
    log: () => lines.join(""),
    async newKey(scopes, orgId) {
      if (orgId === null) {
        const { key, row } = await keys.create(`org ${randomBytes(6).toString("hex")}`, scopes);
        return { key, orgId: row.orgId };
      }
      const key = `rk_testtest_${randomBytes(24).toString("base64url")}`;
      const row: ApiKeyRow = {
        id: newId("key", Date.now()),
        orgId,
        publicPart: "rk_testtest",
        scopes,
        createdAtMs: Date.now(),
        revokedAtMs: null,
      };
      await keyStore.insertKey(row, hashApiKey(key));
      return { key, orgId };
    },
    async urlOf(endpointId) {
      const rows = await database.run("SELECT token FROM endpoints WHERE id = $1", [endpointId]);
      return `http://127.0.0.1:${ingestPort}/in/${String(rows[0]?.["token"])}`;
    },
    async [Symbol.asyncDispose]() {
      await relay[Symbol.asyncDispose]();
      await rm(dataDir, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
    },
  };
}

/** Signs a body as GitHub does. */
export function githubSignature(body: Uint8Array | string, secret: string): string {
  return `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`;
}
