// Does what the Dockerfile does, without Docker: runs its COPY and RUN lines in temporary directories, then starts the
// result as its user, who may not write there.
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { readInstructions } from "./dockerfile.js";

/** The npm of the base image; another major version reads lock files differently. */
const IMAGE_NPM = "npm@10.9.4";
const READY_WITHIN_MS = 20_000;
const PARTS_LOADED_MS = 5_000;
const MISSING_STORES = {
  DATABASE_URL: "postgresql://relay:relay@127.0.0.1:9/relay",
  CLICKHOUSE_URL: "http://relay:relay@127.0.0.1:9/relay",
  RELAY_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString("base64"),
};

export async function checkImage({ root, report }) {
  const dir = mkdtempSync(join(tmpdir(), "relay-image-"));
  try {
    const app = build(root, dir);
    report.note(`image: ${du(app)} MB in /app`);
    await startWithoutStores(app, report);
  } catch (error) {
    report.fail(
      "deploy/Dockerfile",
      String(error.stderr ?? error.message)
        .trim()
        .split("\n")
        .slice(-5)
        .join("\n"),
    );
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** @returns the last stage's directory */
function build(root, dir) {
  const tools = join(dir, "tools");
  mkdirSync(tools);
  execFileSync("npm", ["install", "--no-save", "--prefix", tools, IMAGE_NPM], { stdio: "pipe" });
  const env = {
    ...process.env,
    NODE_OPTIONS: "",
    PATH: `${join(tools, "node_modules/.bin")}:${process.env.PATH}`,
  };
  const stages = [];
  for (const { name, text, stage } of readInstructions(root)) {
    const at = join(dir, `stage-${stage}`);
    if (name === "FROM") mkdirSync(at);
    if (name === "FROM") stages.push(/ AS (\S+)/i.exec(text)?.[1]);
    if (name === "RUN") execFileSync("sh", ["-c", text], { cwd: at, env, stdio: "pipe" });
    if (name !== "COPY") continue;
    const from = /--from=(\S+)/.exec(text)?.[1];
    const paths = text.split(/\s+/).filter((word) => !word.startsWith("--"));
    const target = paths.pop();
    for (const path of paths) {
      const source = from
        ? join(dir, `stage-${stages.indexOf(from)}`, path.replace(/^\/app\//, ""))
        : join(root, path);
      cpSync(source, join(at, target.endsWith("/") ? join(target, basename(path)) : target), {
        recursive: true,
        verbatimSymlinks: true,
      });
    }
  }
  return join(dir, `stage-${stages.length - 1}`);
}

async function startWithoutStores(app, report) {
  const asUser = process.getuid() === 0 ? { uid: 1000, gid: 1000 } : {};
  if (asUser.uid !== undefined) execFileSync("chmod", ["a+rx", join(app, "..")]);
  const env = { PATH: process.env.PATH, NODE_ENV: "production", ...MISSING_STORES };
  const version = spawnSync(process.execPath, ["bin/relay.js", "--version"], {
    cwd: app,
    env,
    encoding: "utf8",
    ...asUser,
  });
  report.expect(version.status === 0, "deploy/Dockerfile", `relay --version: ${version.stderr}`);
  for (const role of ["ingest", "delivery", "api"]) {
    const ports = await freePorts();
    const child = spawn(process.execPath, ["bin/relay.js", "start", "--roles", role], {
      cwd: app,
      env: { ...env, ...ports, KAFKA_BROKERS: "127.0.0.1:9" },
      stdio: ["ignore", "pipe", "pipe"],
      ...asUser,
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (data) => (output += data));
    const ended = new Promise((resolve) => void child.once("exit", resolve));
    const code = await Promise.race([ended, healthy(ports.RELAY_OPS_PORT)]);
    // /healthz answers before the parts of the role are loaded.
    if (code === "healthy") await Promise.race([ended, pause(PARTS_LOADED_MS)]);
    // Without stores, either is right: it waits for them and answers /healthz, or it says which one it cannot reach.
    const said = /ECONNREFUSED|log_unavailable|cannot|unreachable|brokers/i.test(output);
    const broken =
      /ERR_MODULE_NOT_FOUND|Cannot find (package|module|native binding)|SyntaxError|TypeError/.test(
        output,
      );
    report.expect(
      (code === "healthy" || said) && !broken,
      "deploy/Dockerfile",
      `start --roles ${role} (${code}): ${output.slice(-600)}`,
    );
    report.note(
      `image: role ${role} without stores: ${code === "healthy" ? "answers /healthz" : `ends with ${code}`}`,
    );
    if (child.exitCode === null) child.kill("SIGKILL");
    await ended;
  }
}

async function healthy(port) {
  const until = Date.now() + READY_WITHIN_MS;
  while (Date.now() < until) {
    const ok = await fetch(`http://127.0.0.1:${port}/healthz`).then(
      (reply) => reply.ok,
      () => false,
    );
    if (ok) return "healthy";
    await pause(200);
  }
  return "silent";
}

async function freePorts() {
  const ports = {};
  for (const name of ["RELAY_API_PORT", "RELAY_INGEST_PORT", "RELAY_OPS_PORT"]) {
    const server = createServer();
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    ports[name] = String(server.address().port);
    await new Promise((resolve) => server.close(resolve));
  }
  return ports;
}

function du(dir) {
  return execFileSync("du", ["-sm", dir], { encoding: "utf8" }).split("\t")[0];
}
