import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runRelay } from "../support/relay-process.ts";
import { freePorts } from "../support/stores/free-port.ts";

describe("relay keys", () => {
  let env: Record<string, string>;
  beforeAll(async () => {
    env = { RELAY_DATA_DIR: await mkdtemp(join(tmpdir(), "relay-keys-")) };
  });
  afterAll(() => rm(env["RELAY_DATA_DIR"] ?? "", { recursive: true, force: true }));

  it.each(["", "a\nb", "x".repeat(201)])(
    "create refuses the organization %j as RELAY_BOOTSTRAP_ORG does: it was made",
    async (org) => {
      const { code, stdout, stderr } = await runRelay(["keys", "create", "--org", org], env);
      expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
      expect(stderr).toBe("relay: --org must be 1 to 200 characters, without control characters\n");
    },
  );

  it.each(["acme ", " acme", "\u00a0", "  "])(
    "regression: create refuses the organization %j, as RELAY_BOOTSTRAP_ORG does: it was another than the one that looks the same",
    async (org) => {
      const { code, stdout, stderr } = await runRelay(["keys", "create", "--org", org], env);
      expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
      expect(stderr).toBe("relay: --org must not begin or end with white space\n");
    },
  );

  it("advice to make an organization that is not found names one that can be made", async () => {
    const { code, stderr } = await runRelay(["keys", "list", "--org", "nobody "], env);
    expect(code).toBe(2);
    expect(stderr).toContain('no organization "nobody ": make it with relay keys create --org nob');
    expect(stderr).toMatch(/--org nobody\n$/);
  });

  it.each([
    ["keys", "create", "--org", "acme"],
    ["keys", "list", "--org", "acme"],
  ])(
    "relay %s %s names the PostgreSQL that cannot be reached, and why: it only said to try again",
    async (...args) => {
      const address = `127.0.0.1:${(await freePorts(1))[0]}/relay`;
      const { code, stderr } = await runRelay(args, {
        DATABASE_URL: `postgresql://user:CANARY@${address}`,
        RELAY_ENCRYPTION_KEY: Buffer.alloc(32).toString("base64"),
      });
      expect(stderr).toBe(
        `relay: PostgreSQL at postgresql://${address} cannot be reached (ECONNREFUSED)\n`,
      );
      expect(code).toBe(1);
    },
  );

  it("tells when it makes the data directory: a key for a relay elsewhere was made in silence, and refused there", async () => {
    const parent = await mkdtemp(join(tmpdir(), "relay-keys-"));
    const dir = join(parent, "another");
    const create = () => runRelay(["keys", "create", "--org", "acme"], { RELAY_DATA_DIR: dir });
    const told = `relay: the data directory ${dir} is new: for a relay that has another one, set RELAY_DATA_DIR to that\n`;
    expect((await create()).stderr).toContain(told);
    expect((await create()).stderr).not.toContain("is new");
    await rm(parent, { recursive: true });
  });

  it("regression: several at once without a relay take their turns: some used another's database, which ended with that one, and failed", async () => {
    const dir = await mkdtemp(join(tmpdir(), "relay-keys-"));
    const own = { RELAY_DATA_DIR: dir };
    const created = await Promise.all(
      Array.from({ length: 6 }, () => runRelay(["keys", "create", "--org", "acme"], own)),
    );
    expect(created.map(({ code }) => code)).toEqual([0, 0, 0, 0, 0, 0]);
    const listed = await runRelay(["keys", "list", "--org", "acme"], own);
    expect(listed.stdout.trim().split("\n")).toHaveLength(6);
    await rm(dir, { recursive: true, force: true });
  }, 120_000);

  it("only create says that it makes an organization: list and revoke refuse an unknown one", async () => {
    const helpOf = async (command: string) => (await runRelay(["keys", command, "--help"])).stdout;
    expect(await helpOf("create")).toContain("made on first use");
    for (const command of ["list", "revoke"])
      expect(await helpOf(command)).not.toContain("made on first use");
  });

  it("regression: advice for an organization whose name has blanks can be pasted: its name was not quoted", async () => {
    const listed = await runRelay(["keys", "list", "--org", "Acme Inc."], env);
    expect(listed.stderr).toContain("make it with relay keys create --org 'Acme Inc.'");
    expect((await runRelay(["keys", "create", "--org", "Acme Inc."], env)).code).toBe(0);
    const revoked = await runRelay(["keys", "revoke", "rk_nothere", "--org", "Acme Inc."], env);
    expect(revoked.stderr).toContain("see relay keys list --org 'Acme Inc.'");
  });

  it("revoke takes a whole key, and never repeats one that is not found: its first thirty characters were printed", async () => {
    const created = await runRelay(["keys", "create", "--org", "acme"], env);
    expect(created.code).toBe(0);
    const key = created.stdout.trim();
    const unknown = await runRelay(["keys", "revoke", "S3cr3t-k3y-0123!", "--org", "acme"], env);
    expect(unknown).toMatchObject({ code: 2, stdout: "" });
    expect(unknown.stderr).toContain('organization "acme" has no such key: see relay keys list');
    expect(unknown.stderr).not.toContain("S3cr3t");
    const revoked = await runRelay(["keys", "revoke", key, "--org", "acme"], env);
    expect(revoked.stdout).toContain("is revoked");
    const { stdout } = await runRelay(["keys", "list", "--org", "acme"], env);
    expect(stdout).toContain(`${key.slice(0, 11)}_…`);
    expect(stdout).toContain("revoked");
    expect(stdout).not.toContain(key.slice(12));
  });

  it("a key may do what --scope says, else everything; its text alone is on stdout", async () => {
    const create = (...scope: string[]) =>
      runRelay(["keys", "create", "--org", "scopes", ...scope], env);
    for (const [args, scopes] of [
      [[], "read,write"],
      [["--scope", "read"], "read"],
    ] as const) {
      const created = await create(...args);
      expect(created.stdout).toMatch(/^rk_\w{8}_\S+\n$/);
      expect(created.stderr).toContain(`, scopes ${scopes}.`);
      const { stdout } = await runRelay(["keys", "list", "--org", "scopes"], env);
      expect(stdout.split("\n")[0]).toContain(`${created.stdout.slice(0, 11)}_…  ${scopes}  `);
    }
  }, 120_000);
});
