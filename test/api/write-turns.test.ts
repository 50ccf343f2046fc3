import { describe, expect, it } from "vitest";
import { SimClock } from "../support/sim-clock.ts";
import type { Database } from "../../src/adapters/postgres/database.ts";
import { makeApi } from "../../src/api/api.ts";
import { makeWriteTurns } from "../../src/api/write-turns.ts";
import type { EventQueries } from "../../src/domain/event-query.ts";
import type { Management } from "../../src/management/management.ts";
import { ApiFake } from "../support/api-fake.ts";
import { makeTestManagement } from "../support/postgres-management.ts";
import { startTestPostgres } from "../support/postgres.ts";
import { silentLogger } from "../support/silent-logger.ts";

/** Makes writes that end on demand. */
function makeWrites() {
  const clock = new SimClock();
  const inTurn = makeWriteTurns(clock);
  const begun: string[] = [];
  const ends = new Map<string, (failure?: Error) => void>();
  const write = (orgId: string, name: string) =>
    inTurn(orgId, async () => {
      begun.push(name);
      await new Promise<void>((resolve, reject) => {
        ends.set(name, (failure) => (failure === undefined ? resolve() : reject(failure)));
      });
      return name;
    });
  return { write, begun, ends, clock };
}

const settle = () => new Promise((resolve) => setImmediate(resolve));

describe("writes of one organization", () => {
  it("regression: take their turns, and keep no other organization waiting: 400 at once took all connections, and another's reads 20 s", async () => {
    const { write, begun, ends } = makeWrites();
    const written = Array.from({ length: 50 }, (_, index) => write("org_a", `a${index}`));
    const other = write("org_b", "b");
    await settle();
    expect(begun).toEqual(["a0", "a1", "a2", "a3", "b"]);
    ends.get("a1")?.();
    ends.get("a0")?.(new Error("refused"));
    ends.get("b")?.();
    await expect(written[0]).rejects.toThrow("refused");
    expect(await other).toBe("b");
    await settle();
    expect(begun.slice(5)).toEqual(["a4", "a5"]);
    const late = write("org_a", "late");
    await settle();
    expect(begun).not.toContain("late");
    for (let index = 2; index < 50; index += 1) {
      ends.get(`a${index}`)?.();
      await settle();
    }
    expect(await Promise.all(written.slice(1))).toHaveLength(49);
    ends.get("late")?.();
    expect(await late).toBe("late");
  });

  it("are refused where too many wait, or one has waited for too long", async () => {
    const { write, begun, ends, clock } = makeWrites();
    const written = Array.from({ length: 204 }, (_, index) => write("org_a", `a${index}`));
    const refusal = { code: "rate_limited", headers: { "retry-after": "1" } };
    await expect(write("org_a", "more")).rejects.toMatchObject(refusal);
    const waited = Promise.allSettled(written.slice(4));
    await clock.advance(5_001);
    const outcomes = await waited;
    expect(outcomes.every(({ status }) => status === "rejected")).toBe(true);
    expect(begun).toHaveLength(4);
    for (const name of ["a0", "a1", "a2", "a3"]) ends.get(name)?.();
    await Promise.all(written.slice(0, 4));
    void write("org_a", "later");
    await settle();
    expect(begun.at(-1)).toBe("later");
  });

  it("are those of the API: it begins four at once, and answers reads beside them", async () => {
    const fake = new ApiFake();
    const key = fake.addKey("org_a");
    const { management } = fake;
    let begun = 0;
    const hangs = () => {
      begun += 1;
      return new Promise<never>(() => {});
    };
    const projects = { ...management.projects, create: hangs };
    const send = senderTo({ ...management, projects }, fake.queries, key);
    for (let index = 0; index < 20; index += 1) void send("POST", "/projects", { name: "Billing" });
    expect((await send("GET", "/projects")).status).toBe(200);
    for (let turns = 0; turns < 20; turns += 1) await settle();
    expect(begun).toBe(4);
  });

  it("regression: wait for no DNS: a pause was refused with 429 while the same organization's new destinations waited for it", async () => {
    await using postgres = await startTestPostgres();
    const dns = { answers: true, answer: [] as (() => void)[] };
    let writing = 0;
    let maxWriting = 0;
    const database: Database = {
      ...postgres.database,
      async transaction(work) {
        writing += 1;
        maxWriting = Math.max(maxWriting, writing);
        // So that all that may begin meanwhile do.
        for (let turns = 0; turns < 20; turns += 1) await settle();
        return postgres.database.transaction(work).finally(() => (writing -= 1));
      },
    };
    const { management, apiKeys } = makeTestManagement(database, {
      checkReceiver: async () => {
        if (!dns.answers) await new Promise<void>((resolve) => dns.answer.push(resolve));
        return { ok: true };
      },
    });
    const { key } = await apiKeys.create("Acme", ["read", "write"]);
    const send = senderTo(management, new ApiFake().queries, key);
    const made = async (path: string, json: object) => {
      const answer = await send("POST", path, json);
      expect(answer.status).toBe(201);
      return ((await answer.json()) as { data: { id: string } }).data.id;
    };
    const project = await made("/projects", { name: "Billing" });
    const endpoint = await made(`/projects/${project}/endpoints`, {
      name: "Open",
      provider: "custom",
      verification_method: "none",
    });
    const receiver = { name: "Ledger", receiver_url: "https://hooks.example.com/ledger" };
    const destination = await made(`/endpoints/${endpoint}/destinations`, receiver);
    const keySource = {
      name: "Signed",
      provider: "custom",
      verification_method: "jwt",
      verification_config: { algorithms: ["ES256"], jwks_url: "https://keys.example.com/jwks" },
    };
    const { name, ...keyChange } = keySource;

    dns.answers = false;
    const waiting = [
      ...Array.from({ length: 6 }, () =>
        send("POST", `/endpoints/${endpoint}/destinations`, receiver),
      ),
      ...Array.from({ length: 2 }, () =>
        send("PATCH", `/destinations/${destination}`, { receiver_url: "https://a.example.com/" }),
      ),
      ...Array.from({ length: 2 }, () =>
        send("POST", `/projects/${project}/endpoints`, { ...keySource, name }),
      ),
      ...Array.from({ length: 2 }, () => send("PATCH", `/endpoints/${endpoint}`, keyChange)),
    ];
    const asked = () => expect.poll(() => dns.answer.length, { timeout: 20_000 });
    await asked().toBeGreaterThanOrEqual(4);
    expect((await send("POST", `/destinations/${destination}/pause`)).status).toBe(200);
    await asked().toBe(waiting.length);
    maxWriting = 0;
    for (const answer of dns.answer) answer();
    for (const answer of await Promise.all(waiting)) expect(answer.ok).toBe(true);
    expect(maxWriting).toBe(4);
  });
});

function senderTo(management: Management, queries: EventQueries, key: string) {
  const app = makeApi({
    management,
    queries,
    logger: silentLogger,
    newRequestId: () => "req_1",
    now: () => 0,
    monotonicMs: () => 0,
    version: "0.0.0",
  });
  return async (method: string, path: string, json?: object): Promise<Response> =>
    app.request(path, {
      method,
      body: json === undefined ? null : JSON.stringify(json),
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    });
}
