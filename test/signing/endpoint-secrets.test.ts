import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { PROVIDERS, VERIFICATION_METHODS } from "../../src/domain/enums.ts";
import type { Provider, VerificationMethod } from "../../src/domain/enums.ts";
import type { VerificationRequest } from "../../src/domain/verification.ts";
import { makePreparedChecks } from "../../src/signing/prepared-checks.ts";
import { presetOf } from "../../src/signing/presets.ts";
import { rotateSecret } from "../../src/signing/rotation.ts";
import { signSample } from "../../src/signing/sign-sample.ts";
import { signatureHeadersOf } from "../../src/signing/signature-headers.ts";
import {
  makeServiceSecret,
  parseServiceSecret,
  signDelivery,
  verifyDelivery,
} from "../../src/signing/standard-webhooks.ts";
import { makeTestBody, whyNotTestable } from "../../src/signing/test-webhook.ts";
import { NOW_MS, makeRequest } from "../support/verify-requests.ts";

const CONFIGS: Readonly<Record<VerificationMethod, Record<string, unknown>>> = {
  hmac_sha256: {
    header: "X-S",
    secret_encoding: "base64",
    secret_prefix: "whsec_",
    timestamp_body_field: "sent.at",
    signed_payload: "{timestamp}.{body}",
  },
  hmac_sha1: {
    header: "X-S",
    secret_encoding: "hex",
    id_header: "X-Id",
    timestamp_header: "X-Time",
  },
  twilio_signature: {},
  bearer_token: { header: "X-Api-Key", scheme: "" },
  basic_auth: { username: "relay" },
  jwt: { algorithms: ["HS512"], secret_encoding: "base64url" },
  ip_allowlist: { allowed_ips: ["::1"] },
  none: {},
};
const settingsOf = (method: VerificationMethod) =>
  ({ provider: "custom", method, methodIsExplicit: true, config: CONFIGS[method] }) as const;

describe("a rotated secret", () => {
  it.each(VERIFICATION_METHODS)(
    "of %s signs and verifies, or is refused with what to do instead",
    (method) => {
      const settings = settingsOf(method);
      const rotated = rotateSecret(settings, randomBytes);
      expect(rotated.ok).toBe(!["twilio_signature", "ip_allowlist", "none"].includes(method));
      if (!rotated.ok) {
        expect(rotated.message.length).toBeGreaterThan(20);
        return;
      }
      expect(rotateSecret(settings, randomBytes)).not.toEqual(rotated);
      if (method === "jwt") return;
      const { secret } = rotated;
      const body = makeTestBody({ ...settings, secret }, "msg_1", NOW_MS);
      const request = makeRequest({ ...settings, secret, body });
      const signed = { ...request, headers: signSample(request) };
      expect(makePreparedChecks()(signed)(signed)).toMatchObject({ reason: "ok" });
      expect(makePreparedChecks()(signed)({ ...signed, secret: "00" }).valid).toBe(false);
    },
  );

  it("is as long as the sender's library asks, and begins as it is configured to", () => {
    const zeros = (sizeBytes: number) => Buffer.alloc(sizeBytes);
    expect(rotateSecret(settingsOf("hmac_sha256"), zeros)).toEqual({
      ok: true,
      secret: `whsec_${zeros(32).toString("base64")}`,
    });
    // A key for HS512 has 64 bytes at least (RFC 7518 section 3.2).
    expect(rotateSecret(settingsOf("jwt"), zeros)).toEqual({
      ok: true,
      secret: zeros(64).toString("base64url"),
    });
  });

  it("of jwt is refused for keys that only the sender has, and made before anything is configured", () => {
    const settings = {
      ...settingsOf("jwt"),
      config: { algorithms: ["RS256"], jwks_url: "https://a.example" },
    };
    expect(rotateSecret(settings, randomBytes)).toMatchObject({ ok: false });
    expect(rotateSecret({ ...settings, config: {} }, randomBytes)).toMatchObject({ ok: true });
    const both = { algorithms: ["HS256", "RS256"], jwks_url: "https://a.example" };
    expect(rotateSecret({ ...settings, config: both }, randomBytes)).toMatchObject({ ok: false });
    const unconfigured = { ...settingsOf("hmac_sha1"), config: {} };
    expect(rotateSecret(unconfigured, randomBytes)).toMatchObject({ ok: true });
  });
});

/** Returns a genuine request, as a provider with a new secret sends it. */
function requestUnderNewSecret(method: VerificationMethod): VerificationRequest {
  const settings = settingsOf(method);
  const rotated = rotateSecret(settings, randomBytes);
  const secret = rotated.ok ? rotated.secret : null;
  const body = makeTestBody({ ...settings, secret }, "msg_1", NOW_MS);
  const request = makeRequest({ ...settings, secret, body });
  return { ...request, headers: signSample(request) };
}

describe("endpoints that share one configuration, as two of one provider do in a worker", () => {
  it.each(["hmac_sha256", "hmac_sha1", "bearer_token", "basic_auth"] as const)(
    "are each checked with their own secret of %s, whichever came before",
    (method) => {
      const [ours, theirs] = [requestUnderNewSecret(method), requestUnderNewSecret(method)];
      const checks = makePreparedChecks();
      const isGenuine = (request: VerificationRequest) => checks(request)(request).valid;
      expect(isGenuine(ours)).toBe(true);
      expect(isGenuine({ ...ours, secret: theirs.secret })).toBe(false);
      expect(isGenuine(theirs)).toBe(true);
      expect(isGenuine({ ...theirs, secret: ours.secret })).toBe(false);
    },
  );
});

describe("a test webhook", () => {
  it.each(PROVIDERS)("is genuine for %s with the preset's settings", (provider) => {
    const method = presetOf(provider)?.method ?? "none";
    if (whyNotTestable(method) !== null) return;
    const settings = {
      provider,
      method,
      methodIsExplicit: provider === "custom",
      config: {},
      secret: "s",
    };
    const request = makeRequest({ ...settings, body: makeTestBody(settings, "msg_1", NOW_MS) });
    const signed = { ...request, headers: signSample(request) };
    expect(makePreparedChecks()(signed)(signed)).toMatchObject({ reason: "ok" });
  });

  it.each([
    { header: "X-S", id_header: "x-s" },
    { header: "X-S", timestamp_body_field: "__proto__" },
    { header: "X-S", timestamp_body_field: "a.__proto__.b" },
  ])("regression: is genuine with %j, as real requests are: it was refused", (config) => {
    const settings = { ...settingsOf("hmac_sha256"), config, secret: "s" };
    const request = makeRequest({ ...settings, body: makeTestBody(settings, "msg_1", NOW_MS) });
    const signed = { ...request, headers: signSample(request) };
    expect(makePreparedChecks()(signed)(signed)).toMatchObject({ reason: "ok" });
  });

  it("signs the time that its body carries, not the time at which it is signed", () => {
    const settings = { ...settingsOf("hmac_sha256"), secret: "whsec_AAAA" };
    const body = makeTestBody(settings, "msg_1", NOW_MS);
    const request = makeRequest({ ...settings, body, nowMs: NOW_MS + 5_000 });
    const signed = { ...request, headers: signSample(request) };
    expect(makePreparedChecks()(signed)(signed)).toMatchObject({ reason: "ok" });
  });

  it("cannot be made where only the sender can sign", () => {
    const refused = VERIFICATION_METHODS.filter((method) => whyNotTestable(method) !== null);
    expect(refused).toEqual(["twilio_signature", "jwt", "ip_allowlist"]);
  });

  it.each(VERIFICATION_METHODS)(
    "of %s goes out unsigned without a secret or settings",
    (method) => {
      const settings = settingsOf(method);
      expect(signSample(makeRequest({ ...settings, secret: null }))).toEqual([]);
      const wrong = { [method === "none" ? "x" : "header"]: 7, username: 7 };
      expect(signSample(makeRequest({ ...settings, config: wrong }))).toEqual([]);
    },
  );

  it("never writes outside its own body, whatever the field is named", () => {
    for (const field of ["__proto__.polluted", "id.x", "data.message.at", "a..b"]) {
      const config = { header: "X-S", timestamp_body_field: field };
      makeTestBody({ ...settingsOf("hmac_sha256"), config, secret: "s" }, "msg_1", NOW_MS);
    }
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });
});

describe("signature headers", () => {
  const headersOf = (
    provider: Provider,
    method: VerificationMethod,
    methodIsExplicit: boolean,
    config: Record<string, unknown>,
  ) => signatureHeadersOf({ provider, method, methodIsExplicit, config });

  it("are the provider's own, lower case, with timestamp and id, and never credentials", () => {
    expect(headersOf("shopify", "hmac_sha256", false, {})).toEqual([
      "shopify-hmac-sha256",
      "x-shopify-hmac-sha256",
    ]);
    expect(headersOf("linear", "hmac_sha256", false, {})).toEqual([
      "linear-signature",
      "linear-timestamp",
    ]);
    expect(headersOf("twilio", "twilio_signature", false, {})).toEqual([
      "x-twilio-signature",
      "x-twilio-webhooks-signature-settings",
    ]);
    expect(headersOf("custom", "hmac_sha1", true, CONFIGS.hmac_sha1)).toEqual([
      "x-s",
      "x-time",
      "x-id",
    ]);
    expect(headersOf("custom", "hmac_sha1", true, { header: "Authorization" })).toEqual([]);
    expect(headersOf("custom", "hmac_sha1", true, {})).toEqual([]);
    expect(headersOf("custom", "twilio_signature", true, { header: 1 })).toEqual([]);
    for (const method of ["bearer_token", "basic_auth", "jwt", "ip_allowlist", "none"] as const) {
      expect(headersOf("custom", method, true, CONFIGS[method])).toEqual([]);
    }
  });

  it("are both of GitHub's: a receiver that checks the older one refused every delivery with the original signature", () => {
    expect(headersOf("github", "hmac_sha256", false, {})).toEqual([
      "x-hub-signature-256",
      "x-hub-signature",
    ]);
    const explicit = { header: "X-Hub-Signature-256" };
    expect(headersOf("github", "hmac_sha256", true, explicit)).toEqual(["x-hub-signature-256"]);
  });
});

describe("Standard Webhooks", () => {
  it("signs with every secret of an overlap and verifies with each, and with no other", () => {
    const secrets = [makeServiceSecret(randomBytes), makeServiceSecret(randomBytes)];
    const delivery = { id: "evt_1", timestampSeconds: 1, body: Buffer.from("{}") };
    const header = signDelivery({ ...delivery, secrets });
    expect(header.split(" ")).toHaveLength(2);
    for (const secret of secrets) {
      expect(parseServiceSecret(secret)).toMatchObject({ valid: true });
      expect(verifyDelivery(delivery, secret, header)).toBe(true);
      expect(verifyDelivery({ ...delivery, timestampSeconds: 2 }, secret, header)).toBe(false);
    }
    expect(verifyDelivery(delivery, makeServiceSecret(randomBytes), header)).toBe(false);
    expect(verifyDelivery(delivery, secrets[0] ?? "", "v1,%%% v2,AAAA")).toBe(false);
  });

  it("takes a secret of 24 to 64 bytes under its own prefix alone, never one of the asymmetric scheme", () => {
    const base64 = (sizeBytes: number) => Buffer.alloc(sizeBytes, 7).toString("base64");
    const reasonOf = (secret: string) => parseServiceSecret(secret).reason;
    expect([23, 24, 64, 65].map((size) => reasonOf(`whsec_${base64(size)}`))).toEqual([
      "secret_size",
      "ok",
      "ok",
      "secret_size",
    ]);
    expect(reasonOf(`whsk_${base64(32)}`)).toBe("unknown_secret_prefix");
    expect(reasonOf("other_%")).toBe("unknown_secret_prefix");
    expect(reasonOf(base64(32))).toBe("unknown_secret_prefix");
  });

  it("is not proved by a genuine signature under another version", () => {
    const secret = makeServiceSecret(randomBytes);
    const delivery = { id: "evt_1", timestampSeconds: 1, body: Buffer.from("{}") };
    const header = signDelivery({ ...delivery, secrets: [secret] });
    expect(verifyDelivery(delivery, secret, header.replace("v1,", "v2,"))).toBe(false);
    expect(verifyDelivery(delivery, secret, `v2,AAAA ${header}`)).toBe(true);
  });

  it("refuses to sign with what is no secret", () => {
    const delivery = { id: "evt_1", timestampSeconds: 1, body: Buffer.from("{}") };
    expect(() => signDelivery({ ...delivery, secrets: ["whsec_%"] })).toThrow(TypeError);
    expect(() => signDelivery({ ...delivery, secrets: ["whsec_"] })).toThrow(TypeError);
  });
});
