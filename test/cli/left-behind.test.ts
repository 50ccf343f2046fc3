import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";

let tree: string;
beforeAll(async () => {
  tree = await mkdtemp(join(tmpdir(), "relay-left-behind-"));
  for (const folder of ["bin", "dist"]) await mkdir(join(tree, folder));
  await writeFile(join(tree, "package.json"), '{ "type": "module" }');
  const relay = fileURLToPath(new URL("../../bin/relay.js", import.meta.url));
  await copyFile(relay, join(tree, "bin/relay.js"));
});
afterAll(() => rm(tree, { recursive: true, force: true }));

it("a program that is not built says so in one line, exit 2", async () => {
  const child = spawn(process.execPath, [join(tree, "bin/relay.js"), "start"], {
    stdio: ["ignore", "inherit", "pipe"],
  });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  expect(await once(child, "close")).toEqual([2, null]);
  expect(stderr).toBe("webhook-relay is not built: run npm run build\n");
});

it("a command that failed ends the process, though something of it hangs", async () => {
  await writeFile(
    join(tree, "dist/main.js"),
    `import { createServer } from "node:net";
     export async function main() {
       createServer().listen(0, "127.0.0.1");
       process.stdout.write("x".repeat(1_000_000));
       return 1;
     }`,
  );
  const child = spawn(process.execPath, [join(tree, "bin/relay.js")], {
    stdio: ["ignore", "pipe", "inherit"],
    timeout: 20_000,
    killSignal: "SIGKILL",
  });
  let printedBytes = 0;
  child.stdout.on("data", (chunk: Buffer) => (printedBytes += chunk.length));
  expect(await once(child, "close")).toEqual([1, null]);
  expect(printedBytes).toBe(1_000_000);
});
