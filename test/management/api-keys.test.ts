import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { makeApiKeyStore } from "../../src/adapters/postgres/key-store.ts";
import type { ApiKeyRow, ApiKeyStore } from "../../src/domain/config-store.ts";
import { RelayError } from "../../src/domain/errors.ts";
import { isKeyName, formatListedKey } from "../../src/management/api-keys.ts";
import { makeAuthenticate } from "../../src/management/authenticate.ts";
import { makeTestManagement } from "../support/postgres-management.ts";
import { SimClock } from "../support/sim-clock.ts";
import { startTestPostgres, type TestPostgres } from "../support/postgres.ts";

const ROW: ApiKeyRow = {
  id: "key_1",
  orgId: "org_1",
  publicPart: "rk_abcdefgh",
  scopes: ["read", "write"],
  createdAtMs: 0,
  revokedAtMs: null,
};
const KEY = "rk_abcdefgh_0123456789abcdef0123";

/** Makes a store that holds one key, or none, and counts how often it is asked. */
function makeFakeKeys(row: ApiKeyRow | null) {
  const state = { row, asked: 0, down: false };
  const keys: Pick<ApiKeyStore, "findKey"> = {
    async findKey() {
      state.asked += 1;
      if (state.down) throw new RelayError("unavailable", "down");
      return state.row;
    },
  };
  return { state, keys };
}

describe("authentication", () => {
  it("asks the store once in 2 s, and sees a revocation after them", async () => {
    const { state, keys } = makeFakeKeys(ROW);
    const clock = new SimClock();
    const authenticate = makeAuthenticate(keys, clock);
    const actor = { orgId: "org_1", keyId: "key_1", scopes: ["read", "write"] };
    expect(await Promise.all([authenticate(KEY), authenticate(KEY)])).toEqual([actor, actor]);
    state.row = { ...ROW, revokedAtMs: 1 };
    clock.standStill(1_999);
    expect(await authenticate(KEY)).toEqual(actor);
    expect(state.asked).toBe(1);
    clock.standStill(1);
    expect(await authenticate(KEY)).toBeNull();
  });

  it("asks about a key that was revoked no more often than about one that never was", async () => {
    const { state, keys } = makeFakeKeys(ROW);
    const clock = new SimClock();
    const authenticate = makeAuthenticate(keys, clock);
    expect(await authenticate(KEY)).not.toBeNull();
    state.row = { ...ROW, revokedAtMs: 1 };
    clock.standStill(2_000);
    for (let times = 0; times < 10; times += 1) expect(await authenticate(KEY)).toBeNull();
    expect(state.asked).toBe(2);
    clock.standStill(2_000);
    expect(await authenticate(KEY)).toBeNull();
    expect(state.asked).toBe(3);
  });

  it("keeps the keys that it knows, whatever others are made up", async () => {
    const { state, keys } = makeFakeKeys(ROW);
    const authenticate = makeAuthenticate(keys, new SimClock());
    expect(await authenticate(KEY)).not.toBeNull();
    state.row = null;
    for (let number = 0; number < 12_000; number += 1)
      expect(await authenticate(`rk_madeup00_${number}`.padEnd(40, "x"))).toBeNull();
    expect(await authenticate(KEY)).toMatchObject({ keyId: "key_1" });
    expect(state.asked).toBe(12_001);
  });

  it("asks about few made-up keys at once, and beside them about one that it knew", async () => {
    const answers: (() => void)[] = [];
    let isHeld = false;
    const keys: Pick<ApiKeyStore, "findKey"> = {
      async findKey() {
        if (isHeld) await new Promise<void>((resolve) => answers.push(resolve));
        return ROW;
      },
    };
    const clock = new SimClock();
    const authenticate = makeAuthenticate(keys, clock);
    expect(await authenticate(KEY)).not.toBeNull();
    isHeld = true;
    clock.standStill(2_000);
    const madeUp = Array.from({ length: 100 }, (_, number) =>
      authenticate(`rk_madeup00_${number}`.padEnd(40, "x")),
    );
    expect(answers).toHaveLength(4);
    const known = authenticate(KEY);
    expect(answers).toHaveLength(5);
    answers.pop()?.();
    expect(await known).toMatchObject({ keyId: "key_1" });
    isHeld = false;
    for (const answer of answers) answer();
    expect(await Promise.all(madeUp)).toHaveLength(100);
  });

  it("where the store is down, all who wait are told so together", async () => {
    const { state, keys } = makeFakeKeys(ROW);
    state.down = true;
    const authenticate = makeAuthenticate(keys, new SimClock());
    const asked = Array.from({ length: 100 }, (_, number) =>
      authenticate(`rk_madeup00_${number}`.padEnd(40, "x")),
    );
    for (const answer of asked) await expect(answer).rejects.toThrow("down");
    expect(state.asked).toBe(4);
    state.down = false;
    expect(await authenticate(KEY)).toMatchObject({ keyId: "key_1" });
  });

  it("where the store is down, a key that it knew half a minute ago is good, and one that was revoked is not", async () => {
    const { state, keys } = makeFakeKeys(ROW);
    const clock = new SimClock();
    const authenticate = makeAuthenticate(keys, clock);
    expect(await authenticate(KEY)).toMatchObject({ keyId: "key_1" });
    state.down = true;
    clock.standStill(29_999);
    expect(await authenticate(KEY)).toMatchObject({ keyId: "key_1" });
    clock.standStill(1);
    await expect(authenticate(KEY)).rejects.toThrow("down");
    state.down = false;
    expect(await authenticate(KEY)).toMatchObject({ keyId: "key_1" });
    state.row = { ...ROW, revokedAtMs: 1 };
    clock.standStill(2_000);
    expect(await authenticate(KEY)).toBeNull();
    state.down = true;
    clock.standStill(2_000);
    await expect(authenticate(KEY)).rejects.toThrow("down");
  });

  it("where the store hangs, a key that it knew half a minute ago waits a second, and then no request does", async () => {
    const { state, keys } = makeFakeKeys(ROW);
    const clock = new SimClock();
    let isHung = false;
    let fail = (): void => undefined;
    const findKey: typeof keys.findKey = (hash) =>
      isHung
        ? new Promise((_, reject) => {
            state.asked += 1;
            fail = () => reject(new RelayError("unavailable", "no answer in 8 s"));
          })
        : keys.findKey(hash);
    const authenticate = makeAuthenticate({ findKey }, clock);
    expect(await authenticate(KEY)).toMatchObject({ keyId: "key_1" });
    isHung = true;
    clock.standStill(2_000);
    const first = vi.fn<(actor: unknown) => void>();
    void authenticate(KEY).then(first);
    await clock.advance(999);
    expect(first).not.toHaveBeenCalled();
    await clock.advance(1);
    expect(first).toHaveBeenCalledWith(expect.objectContaining({ keyId: "key_1" }));
    for (let times = 0; times < 10; times += 1)
      expect(await authenticate(KEY)).toMatchObject({ keyId: "key_1" });
    expect(state.asked).toBe(2);
    clock.standStill(27_000);
    const tooOld = authenticate(KEY);
    fail();
    await expect(tooOld).rejects.toThrow("no answer in 8 s");
    isHung = false;
    expect(await authenticate(KEY)).toMatchObject({ keyId: "key_1" });
    expect(state.asked).toBe(3);
  });

  it("a store that answers late that a key is revoked is believed from then on", async () => {
    const { state, keys } = makeFakeKeys(ROW);
    const clock = new SimClock();
    let answer = (): void => undefined;
    let isSlow = false;
    const findKey: typeof keys.findKey = async (hash) => {
      if (isSlow) await new Promise<void>((resolve) => (answer = resolve));
      return keys.findKey(hash);
    };
    const authenticate = makeAuthenticate({ findKey }, clock);
    expect(await authenticate(KEY)).toMatchObject({ keyId: "key_1" });
    isSlow = true;
    clock.standStill(2_000);
    const asked = authenticate(KEY);
    await clock.advance(1_000);
    expect(await asked).toMatchObject({ keyId: "key_1" });
    state.row = { ...ROW, revokedAtMs: 1 };
    answer();
    await clock.advance(0);
    expect(await authenticate(KEY)).toBeNull();
  });

  it("does not ask about what cannot be a key, and soon asks again about an unknown one", async () => {
    const { state, keys } = makeFakeKeys(null);
    const clock = new SimClock();
    const authenticate = makeAuthenticate(keys, clock);
    for (const text of ["", "short", "x".repeat(600), `rk_${"ü".repeat(30)}`, `${KEY}\n`])
      expect(await authenticate(text)).toBeNull();
    expect(state.asked).toBe(0);
    expect(await authenticate(KEY)).toBeNull();
    expect(await authenticate(KEY)).toBeNull();
    expect(state.asked).toBe(1);
    state.row = ROW;
    clock.standStill(2_000);
    expect(await authenticate(KEY)).toMatchObject({ keyId: "key_1" });
  });

  it("does not take a store that is down for an unknown key", async () => {
    const { state, keys } = makeFakeKeys(ROW);
    const authenticate = makeAuthenticate(keys, new SimClock());
    state.down = true;
    await expect(authenticate(KEY)).rejects.toMatchObject({ code: "unavailable" });
    state.down = false;
    expect(await authenticate(KEY)).toMatchObject({ keyId: "key_1" });
  });
});

describe("API keys", () => {
  let postgres: TestPostgres;
  let harness: ReturnType<typeof makeTestManagement>;

  beforeAll(async () => {
    postgres = await startTestPostgres();
    harness = makeTestManagement(postgres.database);
  });
  afterAll(async () => postgres[Symbol.asyncDispose]());

  it("are in the audit table when they are made and revoked: nothing told of them", async () => {
    const { apiKeys } = harness;
    const { row } = await apiKeys.create("audited", ["read"]);
    await apiKeys.revoke("audited", row.id);
    await expect(apiKeys.revoke("audited", row.id)).rejects.toThrow("no key");
    const noted = await postgres.database.run(
      "SELECT org_id, actor, action, detail FROM audit_log WHERE target_id = $1 ORDER BY id",
      [row.id],
    );
    const who = { org_id: row.orgId, actor: "operator" };
    expect(noted).toEqual([
      { ...who, action: "key.create", detail: { scopes: ["read"] } },
      { ...who, action: "key.revoke", detail: {} },
    ]);
  });

  it("are shown once, and stored as a hash only", async () => {
    const { key, row } = await harness.apiKeys.create("acme", ["read"]);
    expect(key).toMatch(/^rk_[a-z2-7]{8}_[\w-]{32}$/);
    expect(key.startsWith(`${row.publicPart}_`)).toBe(true);
    const secret = key.slice(row.publicPart.length + 1);
    const dump = JSON.stringify(await postgres.database.run("SELECT * FROM api_keys"));
    expect(dump).not.toContain(secret);
    expect(await harness.management.authenticate(key)).toEqual({
      orgId: row.orgId,
      keyId: row.id,
      scopes: ["read"],
    });
  });

  it("of one name belong to one organization, and can be listed and revoked there", async () => {
    const { apiKeys } = harness;
    const first = await apiKeys.create("two keys", ["read", "write"]);
    const second = await apiKeys.create("two keys", ["read", "write"]);
    expect(second.row.orgId).toBe(first.row.orgId);
    await apiKeys.revoke("two keys", first.row.id);
    expect(
      (await apiKeys.list("two keys")).map(({ id, revokedAtMs }) => [id, revokedAtMs === null]),
    ).toEqual([
      [second.row.id, true],
      [first.row.id, false],
    ]);
    const authenticate = makeAuthenticate(makeApiKeyStore(postgres.database), new SimClock());
    expect(await authenticate(first.key)).toBeNull();
    for (const attempt of [
      async () => apiKeys.revoke("two keys", first.row.id),
      async () => apiKeys.revoke("acme", second.row.id),
      async () => apiKeys.list("nobody"),
      async () => apiKeys.revoke("nobody", "key_1"),
    ])
      await expect(attempt()).rejects.toMatchObject({ name: "UsageError" });
  });

  it("that are revoked are refused after 2 s also where the clock was set back meanwhile", async () => {
    const clock = new SimClock();
    const { apiKeys, management, time } = makeTestManagement(postgres.database, { clock });
    const { key, row } = await apiKeys.create("set back", ["read"]);
    expect(await management.authenticate(key)).toMatchObject({ keyId: row.id });
    await apiKeys.revoke("set back", row.id);
    time.nowMs -= 3_600_000;
    clock.standStill(2_000);
    expect(await management.authenticate(key)).toBeNull();
  });

  it("can be given by the operator for a first start, again and again", async () => {
    const { apiKeys } = harness;
    expect(await apiKeys.ensureBootstrap("default", KEY)).toBe("created");
    expect(await apiKeys.ensureBootstrap("default", KEY)).toBe("exists");
    const [row] = await apiKeys.list("default");
    expect(await harness.management.authenticate(KEY)).toEqual({
      orgId: row?.orgId,
      keyId: row?.id,
      scopes: ["read", "write"],
    });
    await apiKeys.revoke("default", row!.id);
    expect(await apiKeys.ensureBootstrap("default", KEY)).toBe("revoked");
    for (const attempt of [
      async () => apiKeys.ensureBootstrap("another", KEY),
      async () => apiKeys.ensureBootstrap("default", "short"),
      async () => apiKeys.ensureBootstrap("default", "has spaces in it, which no header value may"),
    ])
      await expect(attempt()).rejects.toMatchObject({ name: "UsageError" });
  });

  it("show nothing of an operator's key that is not of the relay's form: its first eleven characters were listed", async () => {
    const { apiKeys } = harness;
    const key = "S3cr3t-k3y-0123!";
    const org = "operator's own";
    await apiKeys.ensureBootstrap(org, key);
    const [row] = await apiKeys.list(org);
    expect(row?.publicPart).toMatch(/^sha256:[0-9a-f]{8}$/);
    expect(formatListedKey(row!)).toBe(`${row?.publicPart}…`);
    for (const text of [key, row!.id, row!.publicPart, formatListedKey(row!)])
      expect(await apiKeys.find(org, text)).toEqual(row);
  });

  it("are found by a whole key or by what lists show, and not by a key that only begins alike", async () => {
    const { apiKeys } = harness;
    const { key, row } = await apiKeys.create("finders", ["read"]);
    for (const text of [key, row.id, row.publicPart, formatListedKey(row)])
      expect(await apiKeys.find("finders", text)).toEqual(row);
    expect(await apiKeys.find("finders", `${row.publicPart}_another-secret-of-a-key`)).toBeNull();
    expect(await apiKeys.find("two keys", key)).toBeNull();
    expect([row.id, row.publicPart, formatListedKey(row)].every(isKeyName)).toBe(true);
    expect([key, "S3cr3t-k3y-0123!", "S3cr3t-k3y-"].some(isKeyName)).toBe(false);
  });

  it("that an earlier version stored with the beginning of the secret still work, and lose it at the next start", async () => {
    const { apiKeys, management } = harness;
    const key = "0ld-S3cr3t-k3y-0123!";
    await apiKeys.ensureBootstrap("earlier", key);
    await postgres.database.run("UPDATE api_keys SET public_part = $1 WHERE public_part = $2", [
      key.slice(0, 11),
      (await apiKeys.list("earlier"))[0]!.publicPart,
    ]);
    const [stored] = await apiKeys.list("earlier");
    expect(formatListedKey(stored!)).toBe("(not shown)");
    expect(await apiKeys.find("earlier", key)).toEqual(stored);
    expect(await management.authenticate(key)).toMatchObject({ keyId: stored!.id });
    expect(await apiKeys.ensureBootstrap("earlier", key)).toBe("exists");
    expect((await apiKeys.list("earlier"))[0]?.publicPart).toMatch(/^sha256:/);
  });
});
