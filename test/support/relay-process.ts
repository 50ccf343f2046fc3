import { spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Client } from "../../src/client/client.ts";
import { checkAnswer, makeCheckedClient } from "./checked-client.ts";
import type { Exchange } from "./api-response-check.ts";
import { freePorts } from "./stores/free-port.ts";

const RECORDER = new URL("record-answers.mjs", import.meta.url).href;
const PROGRAM = fileURLToPath(new URL("../../bin/relay.js", import.meta.url));

export interface FinishedCommand {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Number of management API answers to the command's own client. */
  readonly answersChecked: number;
}

interface Recorded extends Omit<Exchange, "headers"> {
  readonly headers: [string, string][];
}

/**
 * Runs `relay <args>` to its end. The environment holds PATH and what is given, nothing else of the test's own.
 * Every management API answer to the command itself is checked against the OpenAPI document.
 */
export async function runRelay(
  args: readonly string[],
  env: Record<string, string> = {},
  stdin = "",
): Promise<FinishedCommand> {
  const directory = await mkdtemp(join(tmpdir(), "relay-answers-"));
  const answers = join(directory, "answers.jsonl");
  await writeFile(answers, "");
  const child = spawn(process.execPath, ["--import", RECORDER, PROGRAM, ...args], {
    env: { PATH: process.env["PATH"] ?? "", ANSWERS_FILE: answers, ...env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  const output = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output.stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (output.stderr += text));
  child.stdin.on("error", () => undefined).end(stdin);
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  const lines = (await readFile(answers, "utf8")).split("\n");
  await rm(directory, { recursive: true });
  const exchanges = lines.filter((line) => line !== "").map((line) => JSON.parse(line) as Recorded);
  for (const exchange of exchanges)
    checkAnswer({ ...exchange, headers: new Headers(exchange.headers) });
  return { code, ...output, answersChecked: exchanges.length };
}

export const TEST_KEY = "rk_testtest_0123456789abcdefghijklmnop";

interface RelayPorts {
  readonly api: number;
  readonly ingest: number;
  readonly ops: number;
}

/** A relay in its own process, on a data directory that outlives kills. */
export interface RelayProcess extends AsyncDisposable {
  readonly dataDir: string;
  readonly ports: RelayPorts;
  readonly client: Client;
  readonly env: Record<string, string>;
  /** Returns everything it has printed, across restarts. */
  output(): string;
  pid(): number;
  isRunning(): boolean;
  /** Starts the process, and resolves when it listens, though a part may still wait for its store. */
  start(): Promise<void>;
  kill(signal: NodeJS.Signals): Promise<number | null>;
}

export async function makeRelayProcess(
  extra: Record<string, string> = {},
  args: readonly string[] = [],
  options: { readonly openFiles?: number } = {},
): Promise<RelayProcess> {
  const dataDir = await mkdtemp(join(tmpdir(), "relay-test-"));
  const [api = 0, ingest = 0, ops = 0] = await freePorts(3);
  const ports = { api, ingest, ops };
  const env: Record<string, string> = {
    PATH: process.env["PATH"] ?? "",
    RELAY_DATA_DIR: dataDir,
    RELAY_API_PORT: String(ports.api),
    RELAY_INGEST_PORT: String(ports.ingest),
    RELAY_OPS_PORT: String(ports.ops),
    RELAY_API_HOST: "127.0.0.1",
    RELAY_INGEST_HOST: "127.0.0.1",
    RELAY_BOOTSTRAP_API_KEY: TEST_KEY,
    RELAY_ALLOW_PRIVATE_RECEIVERS: "127.0.0.0/8",
    RELAY_PARTITIONS: "8",
    LOG_LEVEL: "info",
    ...extra,
  };
  let child: ChildProcess | null = null;
  let printed = "";

  async function start(): Promise<void> {
    const { openFiles } = options;
    const command = [process.execPath, PROGRAM, "start", ...args];
    // The shell sets the limit (hard as well: Node raises the soft one) and becomes the relay.
    const limited = ["sh", "-c", `ulimit -n ${openFiles} && exec "$@"`, "relay"];
    const [program = "", ...given] = [...(openFiles === undefined ? [] : limited), ...command];
    const started = spawn(program, given, {
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    child = started;
    const startedAt = printed.length;
    let isUp = false;
    await new Promise<void>((resolve, reject) => {
      const onText = (text: string): void => {
        printed += text;
        // Not once it is up: to look through all that a busy relay has printed, with each line, would take a whole core.
        isUp ||= /"relay\.(ready|waiting)"/.test(printed.slice(startedAt));
        if (isUp) resolve();
      };
      started.stdout?.setEncoding("utf8").on("data", onText);
      started.stderr?.setEncoding("utf8").on("data", onText);
      started.once("exit", (code, signal) =>
        reject(
          new Error(
            `the relay ended (${signal ?? code}) before it was ready:\n${printed.slice(startedAt)}`,
          ),
        ),
      );
    });
  }

  async function kill(signal: NodeJS.Signals): Promise<number | null> {
    const running = child;
    child = null;
    if (running === null || running.exitCode !== null || running.signalCode !== null)
      return running?.exitCode ?? null;
    const ended = new Promise<number | null>((resolve) =>
      running.once("exit", (code) => resolve(code)),
    );
    running.kill(signal);
    return ended;
  }

  return {
    dataDir,
    ports,
    client: makeCheckedClient({
      baseUrl: `http://127.0.0.1:${ports.api}`,
      apiKey: env["RELAY_BOOTSTRAP_API_KEY"] ?? "",
    }),
    env,
    output: () => printed,
    pid: () => child?.pid ?? -1,
    isRunning: () => child !== null && child.exitCode === null && child.signalCode === null,
    start,
    kill,
    [Symbol.asyncDispose]: async () => {
      await kill("SIGKILL");
      await rm(dataDir, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
    },
  };
}
