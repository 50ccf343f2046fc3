import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { openDataDir } from "../../src/app/open-data-dir.ts";
import { loadConfig } from "../../src/config/load-config.ts";

it("regression: asks for no name of the addresses that it listens on: with RELAY_OPS_HOST=0.0.0.0 and a DNS server that was away, a start stood still for ten seconds", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "relay-open-data-dir-"));
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const getReport = vi.spyOn(process.report, "getReport");
  try {
    const use = await openDataDir(loadConfig({ RELAY_DATA_DIR: dataDir }));
    const { libuv } = getReport.mock.results[0]!.value as {
      libuv: { type: string; localEndpoint?: { host: string } }[];
    };
    // With names, it is "localhost", which the file of hosts knows.
    const hosts = libuv.flatMap(({ type, localEndpoint }) =>
      type === "tcp" && localEndpoint !== undefined ? [localEndpoint.host] : [],
    );
    expect(hosts).toContain("127.0.0.1");
    expect(hosts).not.toContain("localhost");
    if (use.mode === "serve") await use.claim[Symbol.asyncDispose]();
  } finally {
    getReport.mockRestore();
    server.close();
    await rm(dataDir, { recursive: true });
  }
});
