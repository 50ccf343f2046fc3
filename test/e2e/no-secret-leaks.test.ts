import { createHmac } from "node:crypto";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { createClient } from "@clickhouse/client";
import { SignJWT } from "jose";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readCredentials } from "../../src/embedded/chdb/credentials-file.ts";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { checkedFetch } from "../support/checked-client.ts";
import { makeRelayProcess, runRelay, type RelayProcess } from "../support/relay-process.ts";
import { waitFor } from "../support/wait-for.ts";

/** Values that must be found nowhere, by what they are. */
const CANARIES = {
  "secret of a GitHub endpoint": "canary-github-secret-5f0c1d7e",
  "secret set by PATCH": "canary-patched-secret-9a41c2d0",
  "secret of a custom HMAC": "canary-custom-secret-77e0b3fa",
  "bearer token": "canary-bearer-token-41d08c6b2e",
  "token in a header of its own": "canary-api-key-header-0c5b8a93",
  "basic password": "canary-basic-password-e2917f4c",
  "jwt secret": "canary-jwt-secret-6d20c9b8e1f7a35408c1b2d3e4f5",
  "wrong bearer token": "canary-wrong-bearer-3b6ee0a9c4",
  "wrong basic password": "canary-wrong-basic-8f2d6a1047",
  "credential that the method does not need": "canary-stray-authorization-c81f",
  cookie: "canary-cookie-value-b09e7f3d2a",
  "credential at a paused endpoint": "canary-paused-bearer-71ac5d08",
  "credential with a body too large": "canary-large-bearer-0e4f9b36",
  "credential at an unknown address": "canary-unknown-bearer-5a8d13",
  "API key that is none": "rk_canarykk_unknown-0123456789-abcdef",
  "API key in a query": "rk_canaryqq_misplaced-0123456789-abc",
  "secret in a refused body": "canary-refused-secret-2c7b90d1",
  "value of a refused setting": "canary-refused-setting-f41e08",
  "PEM that is none": "canary-broken-pem-90b7c5e3a1",
} as const;
type CanaryName = keyof typeof CANARIES;

const API_KEY = "rk_canaryaa_bootstrap-key-0123456789-abcdefgh";
/** Values that must be found, to prove that the places are really searched. */
const MARKS = { payload: "mark-in-every-payload-4417", project: "Mark of a project 8813" };

describe("secrets, through everything and looked for everywhere", () => {
  let relay: RelayProcess;
  let receiver: Receiver;
  const answers: { readonly what: string; readonly text: string }[] = [];
  /** Secrets that the relay made: shown in exactly one answer each. */
  const shownOnce = new Map<string, string>();
  const signatures: string[] = [];
  let rows = "";
  let metrics = "";
  let keysOutput = "";

  beforeAll(async () => {
    receiver = await startReceiver((request) => (request.path === "/flaky" ? 500 : 200));
    relay = await makeRelayProcess({
      RELAY_BOOTSTRAP_API_KEY: API_KEY,
      RELAY_MAX_PAYLOAD_BYTES: "4096",
      RELAY_RETRY_BASE_MS: "50",
      LOG_LEVEL: "trace",
    });
    await relay.start();
    await useEverything();
    await readEverything();
    expect(await relay.kill("SIGTERM")).toBe(0);
  }, 180_000);
  afterAll(async () => {
    await relay[Symbol.asyncDispose]();
    await receiver[Symbol.asyncDispose]();
  });

  async function ask(
    what: string,
    method: string,
    url: string,
    headers: Record<string, string> = {},
    body?: string,
  ) {
    const send = new URL(url).port === String(relay.ports.api) ? checkedFetch : fetch;
    const response = await send(url, { method, headers, ...(body === undefined ? {} : { body }) });
    const text = await response.text();
    answers.push({ what, text: `${JSON.stringify([...response.headers])}\n${text}` });
    const id = response.headers.get("x-relay-event-id");
    return { status: response.status, text, id, json: text === "" ? null : JSON.parse(text) };
  }

  async function api(method: string, path: string, json?: unknown, key = API_KEY) {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const body = json === undefined ? undefined : JSON.stringify(json);
    const url = `http://127.0.0.1:${relay.ports.api}${path}`;
    return ask(`${method} ${path}`, method, url, headers, body);
  }

  function showOnce(what: string, secret: string): string {
    shownOnce.set(what, secret);
    return secret;
  }

  const body = JSON.stringify({ mark: MARKS.payload });
  const post = (url: string, headers: Record<string, string>, text = body) =>
    ask("webhook", "POST", url, { "content-type": "application/json", ...headers }, text);
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
  const basic = (password: string) => ({
    authorization: `Basic ${Buffer.from(`user:${password}`).toString("base64")}`,
  });
  const github = (secret: string) => ({
    "x-hub-signature-256": `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`,
  });

  async function useEverything(): Promise<void> {
    const project = (await api("POST", "/projects", { name: MARKS.project })).json.data;
    const create = async (json: object) =>
      (
        await api("POST", `/projects/${project.id}/endpoints`, {
          name: "Endpoint",
          provider: "custom",
          ...json,
        })
      ).json.data as { readonly id: string; readonly url: string };
    const accepted = async (url: string, headers: Record<string, string>) => {
      await waitFor("its acceptance", async () => (await post(url, headers)).status === 200);
    };

    const gh = await create({
      provider: "github",
      secret: CANARIES["secret of a GitHub endpoint"],
    });
    for (const [name, path] of [
      ["service_secret", "/ok"],
      ["service_secret of a failing destination", "/flaky"],
    ] as const) {
      const made = await api("POST", `/endpoints/${gh.id}/destinations`, {
        name: "Receiver",
        receiver_url: receiver.url + path,
        forward_original_signature: true,
        retry_max_attempts: 1,
        retry_backoff: "fixed",
      });
      showOnce(name, made.json.data.service_secret);
      if (path === "/ok") {
        const rotated = await api("POST", `/destinations/${made.json.data.id}/rotate-secret`);
        showOnce("rotated service_secret", rotated.json.data.service_secret);
      }
    }
    await accepted(gh.url, {
      ...github(CANARIES["secret of a GitHub endpoint"]),
      ...bearer(CANARIES["credential that the method does not need"]),
      "proxy-authorization": `Bearer ${CANARIES["credential that the method does not need"]}`,
      cookie: `session=${CANARIES.cookie}`,
    });
    const delivered = await waitFor("the delivery", () => receiver.requests[0]);
    expect(JSON.stringify(delivered.headers)).not.toMatch(/canary/);
    await api("POST", `/endpoints/${gh.id}/test`);
    await api("PATCH", `/endpoints/${gh.id}`, { secret: CANARIES["secret set by PATCH"] });
    await accepted(gh.url, github(CANARIES["secret set by PATCH"]));
    const rotated = await api("POST", `/endpoints/${gh.id}/rotate-secret`);
    const secret = showOnce("rotated endpoint secret", rotated.json.data.secret);
    await accepted(gh.url, github(secret));
    await post(gh.url, { "x-hub-signature-256": "sha256=00" });

    const custom = await create({
      secret: CANARIES["secret of a custom HMAC"],
      verification_method: "hmac_sha256",
      verification_config: { header: "X-Sig", encoding: "base64" },
    });
    const digest = createHmac("sha256", CANARIES["secret of a custom HMAC"]).update(body);
    await accepted(custom.url, { "x-sig": digest.digest("base64") });

    const token = await create({
      secret: CANARIES["bearer token"],
      verification_method: "bearer_token",
    });
    await accepted(token.url, bearer(CANARIES["bearer token"]));
    await post(token.url, bearer(CANARIES["wrong bearer token"]));
    await post(
      token.url,
      bearer(CANARIES["credential with a body too large"]),
      JSON.stringify("x".repeat(5000)),
    );
    await api("POST", `/endpoints/${token.id}/test`);
    await api("POST", `/endpoints/${token.id}/pause`);
    await waitFor(
      "the pause",
      async () =>
        (await post(token.url, bearer(CANARIES["credential at a paused endpoint"]))).status === 409,
    );
    const ownHeader = await create({
      secret: CANARIES["token in a header of its own"],
      verification_method: "bearer_token",
      verification_config: { header: "X-Api-Key", scheme: "" },
    });
    await accepted(ownHeader.url, { "x-api-key": CANARIES["token in a header of its own"] });

    const password = await create({
      secret: CANARIES["basic password"],
      verification_method: "basic_auth",
      verification_config: { username: "user" },
    });
    await accepted(password.url, basic(CANARIES["basic password"]));
    await post(password.url, basic(CANARIES["wrong basic password"]));

    const jwt = await create({
      secret: CANARIES["jwt secret"],
      verification_method: "jwt",
      verification_config: { algorithms: ["HS256"], header: "X-Token", scheme: "" },
    });
    for (const key of [CANARIES["jwt secret"], "w".repeat(40)]) {
      const compact = await new SignJWT({ sub: "provider" })
        .setProtectedHeader({ alg: "HS256" })
        .setIssuedAt()
        .sign(Buffer.from(key));
      signatures.push(compact.split(".")[2] ?? "");
      const { status } = await post(jwt.url, { "x-token": compact });
      expect(status).toBe(key === CANARIES["jwt secret"] ? 200 : 401);
    }

    await post(
      `http://127.0.0.1:${relay.ports.ingest}/in/unknown`,
      bearer(CANARIES["credential at an unknown address"]),
    );
    await api("GET", "/projects", undefined, CANARIES["API key that is none"]);
    await api("GET", `/projects?api_key=${CANARIES["API key in a query"]}`);
    const refused: readonly object[] = [
      { secret: CANARIES["secret in a refused body"], provider: "nobody" },
      { provider: "github", secret: [CANARIES["secret in a refused body"]] },
      { [CANARIES["secret in a refused body"]]: true, provider: "github" },
      {
        secret: "s",
        verification_method: "hmac_sha256",
        verification_config: { header: "X", encoding: CANARIES["value of a refused setting"] },
      },
      {
        secret: "s",
        verification_method: "hmac_sha256",
        verification_config: { header: `${CANARIES["value of a refused setting"]} with blanks` },
      },
      {
        verification_method: "jwt",
        verification_config: {
          algorithms: ["RS256"],
          public_key: `-----BEGIN PUBLIC KEY-----\n${CANARIES["PEM that is none"]}\n-----END PUBLIC KEY-----`,
        },
      },
    ];
    for (const json of refused) {
      const path = `/projects/${project.id}/endpoints`;
      const given = { name: "Refused", provider: "custom", ...json };
      expect((await api("POST", path, given)).status).toBe(400);
    }
    await ask(
      "broken JSON",
      "POST",
      `http://127.0.0.1:${relay.ports.api}/projects`,
      { ...bearer(API_KEY), "content-type": "application/json" },
      `{"secret": "${CANARIES["secret in a refused body"]}`,
    );
  }

  /** Collects the answer of every read, the metrics, the rows of ClickHouse, and what `relay keys` prints. */
  async function readEverything(): Promise<void> {
    const written = answers.filter(({ what }) => what === "webhook").length;
    const events = await waitFor("all events", async () => {
      const { json } = await api("GET", "/events?limit=100&delivery_summary=true");
      // The webhook to an unknown address is not recorded; the test webhooks of two endpoints are.
      return json.pagination.total >= written - 1 ? json.data : null;
    });
    await waitFor("the retry to be recorded", async () => {
      const { json } = await api("GET", "/events/facets");
      return JSON.stringify(json).includes("dead");
    });
    for (const { id } of events) {
      await api("GET", `/events/${id}`);
      await api("GET", `/events/${id}/attempts`);
      await api("POST", `/events/${id}/replay`);
    }
    const { json } = await api("GET", "/projects");
    const endpoints = await api("GET", `/projects/${json.data[0].id}/endpoints`);
    for (const { id } of endpoints.json.data) {
      await api("GET", `/endpoints/${id}`);
      await api("GET", `/endpoints/${id}/destinations`);
    }
    metrics = await (await fetch(`http://127.0.0.1:${relay.ports.ops}/metrics`)).text();
    const keys = await runRelay(["keys", "list", "--org", "default"], {
      RELAY_DATA_DIR: relay.dataDir,
    });
    keysOutput = keys.stdout + keys.stderr;
    const credentials = await readCredentials(relay.dataDir);
    const clickhouse = createClient({ url: new URL(credentials?.url ?? "") });
    try {
      const tables = await clickhouse.query({ query: "SHOW TABLES", format: "TabSeparated" });
      for (const table of (await tables.text()).trim().split("\n")) {
        const answer = await clickhouse.query({
          query: `SELECT * FROM \`${table}\``,
          format: "JSONEachRow",
        });
        rows += await answer.text();
      }
    } finally {
      await clickhouse.close();
    }
  }

  /** Returns the encodings in which a secret could be stored. */
  function shapesOf(secret: string): readonly Buffer[] {
    const bytes = Buffer.from(secret);
    // The alignment inside other base64 text is unknown: take the middle of each of the three.
    const inner = [0, 1, 2].map((shift) =>
      Buffer.concat([Buffer.alloc(shift), bytes])
        .toString("base64")
        .slice(4, -4),
    );
    return [secret, bytes.toString("hex"), ...inner].map((text) => Buffer.from(text));
  }

  function findIn(place: string | Buffer, secret: string): boolean {
    const buffer = typeof place === "string" ? Buffer.from(place) : place;
    return shapesOf(secret).some((shape) => buffer.includes(shape));
  }

  const all = (): readonly (readonly [string, string])[] => [
    ...Object.entries(CANARIES),
    ...shownOnce,
    ["bootstrap API key", API_KEY],
    ...signatures.map((signature) => ["signature of a JWT", signature] as const),
  ];

  it("are in no line of the log", () => {
    expect(relay.output()).toContain("delivery.attempted");
    for (const [name, secret] of all())
      expect([name, findIn(relay.output(), secret)]).toEqual([name, false]);
  });

  it("are in no answer, but for those that the relay made, in one each", () => {
    expect(answers.some(({ text }) => text.includes(MARKS.project))).toBe(true);
    expect(shownOnce.size).toBeGreaterThan(0);
    const named: CanaryName[] = ["secret in a refused body"];
    for (const [name, secret] of all()) {
      const found = answers.filter(({ text }) => findIn(text, secret));
      // A refusal names the unknown field, and the sender typed the secret as its name.
      const allowed = shownOnce.has(name) || (named as string[]).includes(name) ? 1 : 0;
      expect([name, found.map(({ what }) => what)]).toEqual([
        name,
        found.slice(0, allowed).map(({ what }) => what),
      ]);
      if (shownOnce.has(name)) expect(found).toHaveLength(1);
    }
  });

  it("are in no metric, and not in the list of keys", () => {
    expect(metrics).toContain("relay_");
    expect(keysOutput).toContain("rk_canaryaa");
    for (const [name, secret] of all())
      expect([name, findIn(metrics + keysOutput, secret)]).toEqual([name, false]);
  });

  it("are in no row of ClickHouse", () => {
    expect(rows).toContain(MARKS.payload);
    expect(rows).toContain("[redacted]");
    for (const [name, secret] of all()) expect([name, findIn(rows, secret)]).toEqual([name, false]);
  });

  it("are in no file of the data directory", async () => {
    const seen = { payload: false, project: false };
    for (const name of await readdir(relay.dataDir, { recursive: true })) {
      const path = join(relay.dataDir, name);
      if (!(await stat(path)).isFile()) continue;
      const bytes = await readFile(path);
      seen.payload ||= bytes.includes(MARKS.payload);
      seen.project ||= bytes.includes(MARKS.project);
      for (const [what, secret] of all())
        expect([name, what, findIn(bytes, secret)]).toEqual([name, what, false]);
    }
    expect(seen).toEqual({ payload: true, project: true });
  });
});
