import { spawnSync } from "node:child_process";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, request, type IncomingHttpHeaders, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startProcess, type ServerProcess } from "../support/stores/child.ts";
import { freePorts } from "../support/stores/free-port.ts";
import { skipOrFail } from "../support/stores/skip-or-fail.ts";
import { waitFor } from "../support/wait-for.ts";

const CONFIG = fileURLToPath(new URL("../../deploy/nginx.conf", import.meta.url));
const hasNginx = spawnSync("nginx", ["-v"]).status === 0;
const isMissing = !hasNginx && skipOrFail("nginx", "it is not installed");

/** What two ingest servers have seen: they refuse `/refused`, do not answer `/silent`, and take the rest. */
const seen: IncomingHttpHeaders[] = [];
const ingests: Server[] = [];
let dir: string;
let port: number;
let nginx: ServerProcess;

function send(method: string, path: string, headers: Record<string, string> = {}): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: "127.0.0.1", port, method, path, headers }, (answer) => {
      answer.resume().on("end", () => resolve(answer.statusCode ?? 0));
    });
    sent.on("error", reject).end("{}");
  });
}

describe.skipIf(isMissing)("deploy/nginx.conf", () => {
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "relay-nginx-"));
    await chmod(dir, 0o755);
    const [own = 0, ...ports] = await freePorts(3);
    port = own;
    let config = await readFile(CONFIG, "utf8");
    for (const [index, ingestPort] of ports.entries()) {
      const ingest = createServer((incoming, answer) => {
        seen.push(incoming.headers);
        if (incoming.url === "/silent") return;
        incoming.resume().on("end", () => {
          answer.writeHead(incoming.url === "/refused" ? 503 : 200).end();
        });
      });
      ingests.push(ingest);
      await new Promise<void>((resolve) => ingest.listen(ingestPort, "127.0.0.1", resolve));
      config = config.replace(`ingest${index + 1}:8081`, `127.0.0.1:${ingestPort}`);
    }
    const places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
      .map((name) => `${name}_temp_path ${dir}/${name};`)
      .join(" ");
    config = config
      .replace("http {", `http { ${places}`)
      .replace("listen 8081", `listen 127.0.0.1:${port}`)
      .replace("proxy_read_timeout 10s", "proxy_read_timeout 300ms");
    await writeFile(join(dir, "nginx.conf"), config);
    // One process: workers would outlive a master that is killed.
    const globals = `daemon off; master_process off; error_log stderr; pid ${dir}/nginx.pid;`;
    nginx = startProcess("nginx", ["-p", dir, "-c", `${dir}/nginx.conf`, "-g", globals], {});
    await waitFor("nginx", () =>
      send("POST", "/in/first").then(
        (status) => status === 200,
        () => false,
      ),
    );
  });
  afterAll(async () => {
    await nginx?.[Symbol.asyncDispose]();
    for (const ingest of ingests) {
      ingest.closeAllConnections();
      ingest.close();
    }
    await rm(dir, { recursive: true, force: true });
  });

  test("headers of every name come through, and the sender's address cannot be made up", async () => {
    const headers = { x_signature: "1", "x.signature": "2", "x-forwarded-for": "203.0.113.9" };
    expect(await send("POST", "/in/one", headers)).toBe(200);
    expect(seen.at(-1)).toMatchObject({
      x_signature: "1",
      "x.signature": "2",
      "x-forwarded-for": "127.0.0.1",
    });
  });

  test.each([
    ["refused", 503],
    ["not answered", 504],
  ])("a webhook that is %s does not keep the others from a working relay", async (what, status) => {
    const path = what === "refused" ? "/refused" : "/silent";
    expect(await Promise.all([send("PUT", path), send("PUT", path)])).toEqual([status, status]);
    expect(await send("POST", path)).toBe(status);
    const others = Array.from({ length: 10 }, () => send("POST", "/in/other"));
    expect(new Set(await Promise.all(others))).toEqual(new Set([200]));
  });
});
