import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runRelay } from "../support/relay-process.ts";

const EPHEMERAL = {
  RELAY_API_PORT: "0",
  RELAY_INGEST_PORT: "0",
  RELAY_OPS_PORT: "0",
  LOG_LEVEL: "silent",
};

describe("bad input to the program", () => {
  let dataDir: string;
  beforeAll(async () => {
    dataDir = await mkdtemp(join(tmpdir(), "relay-bad-input-"));
  });
  afterAll(() => rm(dataDir, { recursive: true, force: true }));

  it.each([
    [
      ["start"],
      { RELAY_API_PRT: "1" },
      "unknown variable RELAY_API_PRT: did you mean RELAY_API_PORT?",
    ],
    [
      ["start", "--roles", "queue"],
      {},
      "relay: --roles must be a comma-separated list of api, ingest, delivery",
    ],
    [["start", "--roles", ""], {}, "--roles must name at least one of api, ingest, delivery"],
    [
      ["start"],
      { RELAY_DATA_DIR: "/proc/relay" },
      "the data directory /proc/relay cannot be written",
    ],
    [
      ["keys", "create", "--org", "x", "--scope", "admin"],
      {},
      "--scope must be read, write or read,write",
    ],
    [
      ["keys", "create", "--org", "x", "--scope", "read,admin"],
      {},
      "--scope must be read, write or read,write",
    ],
  ])("relay %j with %j: one line that says what to do, exit 2", async (args, env, message) => {
    const { code, stderr } = await runRelay(args, {
      RELAY_DATA_DIR: dataDir,
      ...EPHEMERAL,
      ...(env as Record<string, string>),
    });
    expect(stderr).toContain(message);
    expect(stderr.trim().split("\n")).toHaveLength(1);
    expect(code).toBe(2);
  });

  it.each([
    [
      ["strat"],
      "error: unknown command 'strat' (Did you mean start?) (relay --help lists the commands)",
    ],
    [
      ["start", "--role"],
      "error: unknown option '--role' (Did you mean --roles?) (relay start --help shows what it takes)",
    ],
    [
      ["keys", "create"],
      "error: required option '--org <name>' not specified (relay keys create --help shows what it takes)",
    ],
    [
      ["keys", "revoke", "--org", "x"],
      "error: missing required argument 'key' (relay keys revoke --help shows what it takes)",
    ],
    [
      ["help", "strat"],
      "error: unknown command 'strat' (Did you mean start?) (relay --help lists the commands)",
    ],
    [
      ["help", "keys", "nope"],
      "error: unknown command 'nope' (relay keys --help lists the commands)",
    ],
  ])(
    "relay %j: what is wrong is one line that names the help of that command, exit 2; it was two or three, or all of the help",
    async (args, message) => {
      const { code, stderr } = await runRelay(args, { RELAY_DATA_DIR: dataDir, ...EPHEMERAL });
      expect(stderr).toBe(`${message}\n`);
      expect(code).toBe(2);
    },
  );

  it.each([["RELAY_API_PORT"], ["RELAY_INGEST_PORT"], ["RELAY_OPS_PORT"]])(
    "%s in use: one line that names the variable, exit 2",
    async (variable) => {
      const server = createServer();
      await new Promise<void>((resolve) => server.listen(0, "0.0.0.0", () => resolve()));
      try {
        const { code, stderr } = await runRelay(["start"], {
          RELAY_DATA_DIR: dataDir,
          ...EPHEMERAL,
          [variable]: String((server.address() as AddressInfo).port),
        });
        expect(stderr).toContain(variable);
        expect(stderr.trim().split("\n")).toHaveLength(1);
        expect(code).toBe(2);
      } finally {
        await new Promise((resolve) => server.close(resolve));
      }
    },
  );

  it.each(["API", "INGEST", "OPS"])(
    "RELAY_%s_HOST of no address here: one line that names it, exit 2; the port was blamed, or a stack shown",
    async (name) => {
      const { code, stderr } = await runRelay(["start"], {
        RELAY_DATA_DIR: dataDir,
        ...EPHEMERAL,
        [`RELAY_${name}_HOST`]: "192.0.2.1",
      });
      expect(stderr).toBe(
        `relay: host 192.0.2.1 cannot be listened on (EADDRNOTAVAIL): set RELAY_${name}_HOST to an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all\n`,
      );
      expect(code).toBe(2);
    },
  );

  it("an unknown command or a missing option is exit 2, help and version exit 0", async () => {
    expect((await runRelay(["fly"])).code).toBe(2);
    expect((await runRelay(["keys", "create"])).code).toBe(2);
    const help = await runRelay(["--help"]);
    expect(help.code).toBe(0);
    for (const command of ["start", "migrate", "keys", "demo", "verify"])
      expect(help.stdout).toContain(command);
    expect(await runRelay(["--version"])).toMatchObject({ code: 0, stdout: "0.1.0\n" });
  });

  it("help of a command with two words is that command's: it was the one of the first word", async () => {
    const [asked, own] = [
      await runRelay(["help", "keys", "create"]),
      await runRelay(["keys", "create", "--help"]),
    ];
    expect(asked).toMatchObject({ code: 0, stdout: own.stdout });
    expect(asked.stdout).toContain("--scope");
  });

  it.each(["18.20.0", "20.18.3", "21.7.3", "22.11.0", "24.1.0"])(
    "Node %s has no binary of the ingest server: one line that says what to do, exit 2",
    async (version) => {
      const code64 = Buffer.from(
        `Object.defineProperty(process.versions, "node", { value: "${version}" })`,
      ).toString("base64");
      const pretend = `data:text/javascript;base64,${code64}`;
      const { code, stderr } = await runRelay(["--version"], {
        NODE_OPTIONS: `--import ${pretend}`,
      });
      expect(stderr).toContain(`this is ${version}`);
      expect(stderr).toContain("README.md");
      expect(stderr.trim().split("\n")).toHaveLength(1);
      expect(code).toBe(2);
    },
  );

  it("ends without a stack when whoever read its output is gone", async () => {
    const line = JSON.stringify({ provider: "github", secret: "s", headers: {} });
    const { stdout, stderr } = await promisify(execFile)("sh", [
      "-c",
      `yes '${line}' | head -n 50000 | "${process.execPath}" bin/relay.js verify | head -n 1`,
    ]);
    expect(stdout.trim().split("\n")).toHaveLength(1);
    expect(stderr).toBe("");
  });

  it("relay verify answers each line, readable or not", async () => {
    const request = {
      id: "a",
      provider: "custom",
      verification_method: "none",
      method: "POST",
      headers: {},
      body_base64: "",
      now: null,
      url: "https://x.example/in/1",
    };
    const { code, stdout } = await runRelay(
      ["verify"],
      {},
      `${JSON.stringify(request)}\nnot json\n`,
    );
    expect(code).toBe(0);
    const answers = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { id: string | null; valid: boolean; reason: string });
    expect(answers).toMatchObject([
      { id: "a", valid: true, reason: "ok" },
      { id: null, valid: false, reason: "malformed_request" },
    ]);
  });

  it.each(["start", "keys create", "secrets reencrypt", "replay", "verify"])(
    "regression: the help of %s fits a terminal of 80 columns, but for what is to be copied: it broke words",
    async (command) => {
      const { stdout } = await runRelay([...command.split(" "), "--help"]);
      const prose = stdout.split("\n").filter((line) => !line.startsWith("  {"));
      expect(prose.filter((line) => line.length > 80)).toEqual([]);
    },
  );

  it("relay verify --help shows a line that verifies, and a body that is no base64 is named: it was taken for an empty one", async () => {
    const { stdout: help } = await runRelay(["verify", "--help"]);
    const line = help.split("\n").find((text) => text.includes('{"provider"')) ?? "";
    const { body_base64: encoded, ...rest } = JSON.parse(line) as { body_base64: string };
    const misnamed = JSON.stringify({ ...rest, body: Buffer.from(encoded, "base64").toString() });
    const { stdout } = await runRelay(["verify"], {}, `${line}\n${misnamed}\n`);
    const answers = stdout
      .trim()
      .split("\n")
      .map((text) => JSON.parse(text) as object);
    expect(answers).toMatchObject([
      { valid: true, reason: "ok" },
      { reason: "malformed_request", message: "body: give the raw bytes as body_base64" },
    ]);
  });

  it("relay demo ends by itself with exit 0 and its figures are right", async () => {
    const { code, stdout, answersChecked } = await runRelay(["demo"]);
    expect(stdout).toContain("Everything came out as it must.");
    expect(code).toBe(0);
    expect(answersChecked).toBeGreaterThan(10);
  }, 90_000);
});
