import { describe, expect, it } from "vitest";
import { PROVIDERS, VERIFICATION_METHODS } from "../../../src/domain/enums.ts";
import type { VerificationMethod } from "../../../src/domain/enums.ts";
import type { VerificationRequest } from "../../../src/domain/verification.ts";
import { verifyLine } from "../../../src/cli/verify-line.ts";
import { makeVerifyPorts, verifyRequest } from "../../../src/pipeline/verify/verify-request.ts";
import { makeRequest } from "../../support/verify-requests.ts";
import { cpuSecondsOf } from "../../support/cpu-seconds.ts";

const PAIRS = 100_000;
/** A request takes some milliseconds; with a pattern that starts over at every blank of its header it takes many seconds. */
const MAX_CPU_SECONDS = 1;

/** Makes a small seeded generator (mulberry32), so that a failure can be rerun. */
function makeRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const HEADERS = [
  "Stripe-Signature",
  "X-Hub-Signature-256",
  "X-Shopify-Hmac-Sha256",
  "X-Twilio-Signature",
  "Linear-Signature",
  "Linear-Timestamp",
  "X-Signature",
  "Authorization",
  "X-Forwarded-For",
  "Content-Type",
  "webhook-id",
  "webhook-timestamp",
  "\u0000",
  "",
];
const FRAGMENTS = [
  "t=1700000000,v1=",
  "sha256=",
  "v1,",
  "Bearer ",
  "Basic ",
  "eyJhbGciOiJIUzI1NiJ9.e30.",
  "eyJhbGciOiJub25lIn0.e30.",
  "application/x-www-form-urlencoded",
  ",",
  "=",
  ".",
  " ",
  "\t",
  "%",
  "%F",
  "&",
  "\ud800",
  "\u00ff",
  "9".repeat(400),
  "a".repeat(4000),
  " ".repeat(4000),
  ",".repeat(2000),
  "[::1]:80",
  "192.0.2.1",
  '{"webhookTimestamp":1e999}',
  '{"__proto__":{"webhookTimestamp":1}}',
];
/** Well-formed values, and so refused only later. */
const VALUES = [
  "ab".repeat(32),
  "ab".repeat(20),
  `sha256=${"ab".repeat(32)}`,
  `t=1700000000,v1=${"ab".repeat(32)}`,
  "1700000000",
  "L/OH5YylLD5NRKLltdqwSvS0BnU=",
  "Basic dTpw",
  "Bearer token",
  "Bearer eyJhbGciOiJIUzI1NiJ9.e30.AAAA",
  "Bearer eyJhbGciOiJFZERTQSIsImNyaXQiOltdfQ.e30.AAAA",
  "Bearer eyJhbGciOiJFZERTQSJ9.e30.AAAA",
  "application/json",
];

const HMAC_CONFIGS: readonly Record<string, unknown>[] = [
  { header: "X-Signature" },
  { header: "X-Signature", prefix: "sha256=", allow_empty_body: false },
  { header: ["X-Signature", "webhook-id"], encoding: "base64url", header_format: "list" },
  { header: "X-Signature", header_format: "key_value", signature_key: "v1", timestamp_key: "t" },
  { header: "X-Signature", header_format: "key_value", signature_key: "v9" },
  {
    header: "X-Signature",
    signed_payload: "{timestamp}{body}",
    timestamp_body_field: "webhookTimestamp",
  },
  { header: "X-Signature", timestamp_header: "webhook-timestamp", id_header: "webhook-id" },
  { header: "X-Signature", secret_encoding: "hex" },
];
const CONFIGS: Readonly<Record<VerificationMethod, readonly Record<string, unknown>[]>> = {
  hmac_sha256: HMAC_CONFIGS,
  hmac_sha1: HMAC_CONFIGS,
  twilio_signature: [{}, { url: "https://x'/?a='%27&b" }],
  bearer_token: [{}, { header: "X-Signature", scheme: "" }],
  basic_auth: [{ username: "u" }, { username: "" }],
  jwt: [
    { algorithms: ["HS256", "HS512"], body_hash_claim: "h", url_hash_claim: "u" },
    { algorithms: ["RS256"], public_key: "junk" },
    {
      algorithms: ["EdDSA"],
      jwks: {
        keys: [{ kty: "OKP", crv: "Ed25519", x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" }],
      },
    },
  ],
  ip_allowlist: [{ allowed_ips: ["192.0.2.9/32", "::1"] }, { allowed_ips: [1, null] }],
  none: [{}],
};
const STRANGE_CONFIGS: readonly Record<string, unknown>[] = [
  {},
  { header: 7, tolerance_seconds: -1, signed_payload: "{nope}" },
  { __proto__: null, constructor: "x" },
  { ["__proto__"]: {}, header: "X-Signature" },
];

function makeGenerator(random: () => number): () => VerificationRequest {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const text = (): string => {
    let made = "";
    for (let count = Math.floor(random() * 5); count >= 0; count -= 1) {
      made += random() < 0.7 ? pick(FRAGMENTS) : String.fromCharCode(Math.floor(random() * 300));
    }
    return made;
  };
  const value = (): string => (random() < 0.3 ? pick(VALUES) : text());
  return () => {
    const method = pick(VERIFICATION_METHODS);
    const methodIsExplicit = random() < 0.7;
    return makeRequest({
      provider: pick(PROVIDERS),
      method,
      methodIsExplicit,
      secret: random() < 0.1 ? null : random() < 0.1 ? "" : text(),
      config: pick(methodIsExplicit && random() < 0.9 ? CONFIGS[method] : STRANGE_CONFIGS),
      url: random() < 0.5 ? `https://relay.example/in/x?${text()}` : text(),
      headers: Array.from({ length: Math.floor(random() * 5) }, () => [pick(HEADERS), value()]),
      body: random() < 0.1 ? new Uint8Array(0) : Buffer.from(text()),
      remoteAddress: random() < 0.5 ? "192.0.2.9" : text(),
      trustedProxies: random() < 0.5 ? [] : ["192.0.2.0/24", text()],
      nowMs: random() < 0.9 ? 1_700_000_000_000 : Number.NaN,
    });
  };
}

describe("whatever a request holds", () => {
  it(`${PAIRS} pairs of headers and body neither throw nor take ${MAX_CPU_SECONDS} s`, async () => {
    const ports = makeVerifyPorts(null);
    const generate = makeGenerator(makeRandom(20_260_102));
    const reasons = new Map<string, number>();
    for (let pair = 0; pair < PAIRS; pair += 1) {
      const request = generate();
      const seconds = await cpuSecondsOf(async () => {
        const result = await verifyRequest(request, ports);
        reasons.set(result.reason, (reasons.get(result.reason) ?? 0) + 1);
        if (!result.valid) expect(result.message.length).toBeGreaterThan(0);
      });
      expect(seconds).toBeLessThan(MAX_CPU_SECONDS);
    }
    expect(reasons.get("internal_error")).toBeUndefined();
    expect(reasons.size).toBeGreaterThan(25);
  }, 1_200_000);

  it(`bodies and headers built to be slow do not take ${MAX_CPU_SECONDS} s`, async () => {
    const ports = makeVerifyPorts(null);
    const form: [string, string] = ["Content-Type", "application/x-www-form-urlencoded"];
    const twilio = { method: "twilio_signature", config: {} } as const;
    const signature: [string, string] = ["X-Twilio-Signature", "L/OH5YylLD5NRKLltdqwSvS0BnU="];
    const mb = 1024 * 1024;
    const slow: VerificationRequest[] = [
      makeRequest({ ...twilio, headers: [form, signature], body: Buffer.alloc(10 * mb, "a=1&") }),
      makeRequest({ ...twilio, headers: [form, signature], body: Buffer.alloc(256 * 1024, "%") }),
      makeRequest({ ...twilio, headers: [form, signature], body: Buffer.alloc(250 * 1024, "z") }),
      makeRequest({
        ...twilio,
        headers: [signature],
        body: new Uint8Array(0),
        url: `https://a/?${"%27&".repeat(40_000)}`,
      }),
      makeRequest({ headers: [["X-Signature", `a${" \t".repeat(40_000)}a`]] }),
      makeRequest({
        config: {
          header: "X-Signature",
          signed_payload: "{timestamp}{body}",
          timestamp_body_field: "t",
        },
        headers: [["X-Signature", "a".repeat(64)]],
        body: Buffer.alloc(mb, "["),
      }),
      makeRequest({
        config: {
          header: "X-Signature",
          header_format: "key_value",
          signature_key: "v1",
        },
        headers: [["X-Signature", `v1=${"ab".repeat(32)},`.repeat(240).slice(0, -1)]],
      }),
      makeRequest({
        method: "ip_allowlist",
        config: { allowed_ips: ["::1"] },
        trustedProxies: ["0.0.0.0/0"],
        headers: [["X-Forwarded-For", "10.0.0.1,".repeat(1800)]],
      }),
    ];
    for (const request of slow) {
      const seconds = await cpuSecondsOf(async () => {
        const result = await verifyRequest(request, ports);
        expect(result.valid).toBe(false);
        expect(result.reason).not.toBe("internal_error");
      });
      expect(seconds).toBeLessThan(MAX_CPU_SECONDS);
    }
  });
});

describe("relay verify", () => {
  const ports = makeVerifyPorts(null);
  const ask = async (line: string): Promise<Record<string, unknown>> =>
    JSON.parse(await verifyLine(line, ports, { nowMs: () => 0 })) as Record<string, unknown>;

  it.each([
    ["no JSON at all", "nope", /not JSON/],
    ["a list", "[]", /object/],
    [
      "a mistyped field, which was ignored",
      '{"provider":"github","secrett":"x"}',
      /^secrett: unknown field, did you mean secret\?$/,
    ],
    [
      "regression: a field that is nothing like any other, for which any was suggested",
      '{"provider":"github","colour":"red"}',
      /^colour: unknown field, see relay verify --help$/,
    ],
    ["an unknown provider", '{"id":1,"provider":"acme"}', /provider/],
    ["an unknown method", '{"verification_method":"md5"}', /verification_method/],
    ["custom without a method", "{}", /verification_method/],
    ["a config that is a list", '{"verification_method":"none","config":[]}', /config/],
    ["a secret that is a number", '{"verification_method":"none","secret":1}', /secret/],
    ["headers that are a text", '{"verification_method":"none","headers":"a"}', /headers/],
    ["a header that is a number", '{"verification_method":"none","headers":{"a":1}}', /headers\.a/],
    [
      "a body that is not base64",
      '{"verification_method":"none","body_base64":"%"}',
      /body_base64/,
    ],
    ["a time that is none", '{"verification_method":"none","now":"soon"}', /now/],
    ["proxies that are a text", '{"verification_method":"none","trusted_proxies":"x"}', /trusted/],
  ])("says what is wrong with %s", async (_what, line, message) => {
    const answer = await ask(line);
    expect(answer).toMatchObject({ valid: false, reason: "malformed_request" });
    expect(answer["message"]).toMatch(message);
  });

  it("takes the preset's method when none is named and the clock when there is no time", async () => {
    const answer = await ask('{"id":"a","provider":"stripe","secret":"s"}');
    expect(answer).toMatchObject({ id: "a", reason: "missing_signature_header" });
    expect(answer["message"]).toBe(
      "Stripe-Signature is missing: is the endpoint's URL the one in Stripe's dashboard?",
    );
  });

  it("treats another header on a known provider as a configuration of its own", async () => {
    const line = { provider: "github", verification_method: "hmac_sha256", secret: "s" };
    const answer = await ask(JSON.stringify({ ...line, config: { header: "X-Other" } }));
    expect(answer["message"]).toMatch(/^X-Other is missing/);
  });
});
