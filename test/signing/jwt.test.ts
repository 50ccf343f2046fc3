import { createHash, generateKeyPairSync } from "node:crypto";
import { SignJWT, UnsecuredJWT, exportJWK, exportSPKI } from "jose";
import { describe, expect, it } from "vitest";
import type { VerificationRequest } from "../../src/domain/verification.ts";
import { trimJwks } from "../../src/signing/jwt-keys.ts";
import { makePreparedChecks } from "../../src/signing/prepared-checks.ts";
import { NOW_MS, makeRequest } from "../support/verify-requests.ts";

const NOW = Math.floor(NOW_MS / 1000);
const check = (request: VerificationRequest): string =>
  makePreparedChecks()(request)(request).reason;

function bearing(
  token: string,
  config: object,
  parts: Partial<VerificationRequest> = {},
): VerificationRequest {
  return makeRequest({
    method: "jwt",
    config: { ...config },
    headers: [["Authorization", `Bearer ${token}`]],
    ...parts,
  });
}

const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 });
const curves = {
  ES256: generateKeyPairSync("ec", { namedCurve: "P-256" }),
  ES384: generateKeyPairSync("ec", { namedCurve: "P-384" }),
  ES512: generateKeyPairSync("ec", { namedCurve: "P-521" }),
};
const ed = generateKeyPairSync("ed25519");
const pairs = {
  RS256: rsa,
  RS384: rsa,
  RS512: rsa,
  PS256: rsa,
  PS384: rsa,
  PS512: rsa,
  ...curves,
  EdDSA: ed,
} as const;

describe("tokens that jose made", () => {
  for (const [algorithm, { publicKey, privateKey }] of Object.entries(pairs)) {
    it(`with ${algorithm} are accepted by PEM and by JWKS, and not with another algorithm configured`, async () => {
      const token = await new SignJWT({ a: 1 })
        .setProtectedHeader({ alg: algorithm, kid: "k1" })
        .setExpirationTime(NOW + 60)
        .sign(privateKey);
      const byPem = { algorithms: [algorithm], public_key: await exportSPKI(publicKey) };
      const jwk = await exportJWK(publicKey);
      const byJwks = { algorithms: [algorithm], jwks: { keys: [{ ...jwk, kid: "k1" }] } };
      expect(check(bearing(token, byPem))).toBe("ok");
      expect(check(bearing(token, byJwks))).toBe("ok");
      const other = algorithm === "EdDSA" ? "RS256" : "EdDSA";
      expect(check(bearing(token, { ...byPem, algorithms: [other] }))).toBe("alg_not_allowed");
      const otherKey = await exportSPKI(other === "EdDSA" ? ed.publicKey : rsa.publicKey);
      expect(check(bearing(token, { ...byPem, public_key: otherKey }))).toBe("no_suitable_key");
      const changed = token.slice(0, -3) + (token.at(-3) === "A" ? "B" : "A") + token.slice(-2);
      expect(check(bearing(changed, byPem))).toBe("signature_mismatch");
    });
  }

  for (const algorithm of ["HS256", "HS384", "HS512"]) {
    it(`with ${algorithm} are accepted with the secret in its encoding`, async () => {
      const key = Buffer.alloc(64, 7);
      const token = await new SignJWT({}).setProtectedHeader({ alg: algorithm }).sign(key);
      const config = { algorithms: [algorithm], secret_encoding: "base64" };
      const secret = key.toString("base64");
      expect(check(bearing(token, config, { secret }))).toBe("ok");
      expect(check(bearing(token, config, { secret: "AAAA" }))).toBe("signature_mismatch");
      expect(check(bearing(token, config, { secret: null }))).toBe("missing_secret");
      expect(check(bearing(token, config, { secret: "%" }))).toBe("malformed_secret");
    });
  }
});

describe("a key of a JWK set", () => {
  const sign = (algorithm: "RS256" | "EdDSA") =>
    new SignJWT({}).setProtectedHeader({ alg: algorithm }).sign(pairs[algorithm].privateKey);

  it.each([
    ["RS256", {}, "ok"],
    ["RS256", { use: "sig", key_ops: ["sign", "verify"], alg: "RS256" }, "ok"],
    ["RS256", { use: "enc" }, "invalid_config"],
    ["RS256", { key_ops: ["encrypt"] }, "invalid_config"],
    ["RS256", { alg: "RS512" }, "no_suitable_key"],
    ["RS256", { alg: "PS256" }, "no_suitable_key"],
    ["EdDSA", { alg: "EdDSA" }, "ok"],
    ["EdDSA", { alg: "Ed25519" }, "ok"],
    ["EdDSA", { alg: "ES256" }, "no_suitable_key"],
  ] as const)("serves %s, as far as %j allows: %s", async (algorithm, purpose, reason) => {
    const jwk = pairs[algorithm].publicKey.export({ format: "jwk" });
    const config = { algorithms: [algorithm], jwks: { keys: [{ ...jwk, ...purpose }] } };
    expect(check(bearing(await sign(algorithm), config))).toBe(reason);
  });
});

it("of a key set only what can verify is kept: without its purpose a key for encryption would be taken for one", () => {
  const jwk = ed.publicKey.export({ format: "jwk" });
  const unfit = [{ ...jwk, use: "enc" }, { ...jwk, key_ops: ["encrypt"] }, 1];
  expect(trimJwks({ keys: [{ ...jwk, kid: "a", use: "sig", more: [] }, ...unfit] })).toEqual({
    keys: [{ ...jwk, kid: "a" }],
  });
});

describe("a token without a key id", () => {
  const publicJwk = curves.ES256.publicKey.export({ format: "jwk" });
  const keysOf = (count: number) =>
    Array.from({ length: count }, (_, index) => ({ ...publicJwk, kid: `k${index}` }));

  it("is not tried with dozens of keys: a forged one held a thread for 0.2 s", async () => {
    const sign = (header: object) =>
      new SignJWT({}).setProtectedHeader({ alg: "ES256", ...header }).sign(curves.ES256.privateKey);
    const few = { algorithms: ["ES256"], jwks: { keys: keysOf(8) } };
    const many = { algorithms: ["ES256"], jwks: { keys: keysOf(100) } };
    expect(check(bearing(await sign({}), few))).toBe("ok");
    expect(check(bearing(await sign({}), many))).toBe("unknown_key_id");
    expect(check(bearing(await sign({ kid: "k99" }), many))).toBe("ok");
  });
});

describe("a token", () => {
  const secret = "a shared secret of some length...";
  const config = { algorithms: ["HS256"] };
  const make = (claims: object, header: object = {}): Promise<string> =>
    new SignJWT({ ...claims })
      .setProtectedHeader({ alg: "HS256", ...header })
      .sign(Buffer.from(secret));

  it("without a signature is refused", () => {
    const token = new UnsecuredJWT({}).encode();
    expect(check(bearing(token, config, { secret }))).toBe("alg_not_allowed");
  });

  it("that names its own key source is refused, even when its signature is genuine", async () => {
    const jku = await make({}, { jku: "https://evil.example/jwks" });
    const x5u = await make({}, { x5u: "https://evil.example/x" });
    expect(check(bearing(jku, config, { secret }))).toBe("unsupported_header");
    expect(check(bearing(x5u, config, { secret }))).toBe("unsupported_header");
  });

  it("made with the public key's text as HMAC key is refused", async () => {
    const pem = await exportSPKI(rsa.publicKey);
    const token = await new SignJWT({}).setProtectedHeader({ alg: "HS256" }).sign(Buffer.from(pem));
    for (const algorithms of [["RS256"], ["RS256", "HS256"], ["HS256"]]) {
      const request = bearing(token, { algorithms, public_key: pem }, { secret: pem });
      expect(check(request)).toBe("alg_not_allowed");
    }
  });

  it("regression: made with a public key that stands as the endpoint's secret is refused: anybody could sign", async () => {
    const secret = await exportSPKI(rsa.publicKey);
    const token = await new SignJWT({})
      .setProtectedHeader({ alg: "HS256" })
      .sign(Buffer.from(secret));
    const request = bearing(token, { algorithms: ["HS256"] }, { secret });
    expect(check(request)).toBe("alg_not_allowed");
  });

  it.each([
    ["expires now", { exp: NOW }, { clock_skew_seconds: 0 }, "token_expired"],
    ["expired within the skew", { exp: NOW - 59 }, {}, "ok"],
    ["is not valid yet", { nbf: NOW + 61 }, {}, "token_not_yet_valid"],
    ["is valid soon, within the skew", { nbf: NOW + 60 }, {}, "ok"],
    ["has an exp that is a text", { exp: "soon" }, {}, "malformed_token"],
    ["is too old", { iat: NOW - 400 }, { max_age_seconds: 300 }, "token_too_old"],
    ["is just young enough", { iat: NOW - 360 }, { max_age_seconds: 300 }, "ok"],
    ["is of a clock ahead, within the skew", { iat: NOW + 60 }, { max_age_seconds: 300 }, "ok"],
    ["comes from the future", { iat: NOW + 61 }, { max_age_seconds: 300 }, "token_not_yet_valid"],
    ["hides its age", {}, { max_age_seconds: 300 }, "missing_iat"],
    ["has no issuer", {}, { issuer: "a" }, "issuer_mismatch"],
    ["has another issuer", { iss: "b" }, { issuer: "a" }, "issuer_mismatch"],
    ["has one of the issuers", { iss: "b" }, { issuer: ["a", "b"] }, "ok"],
    ["has one audience of many", { aud: ["x", "y"] }, { audience: "y" }, "ok"],
    ["has another audience", { aud: "x" }, { audience: "y" }, "audience_mismatch"],
    ["has another body's hash", { h: "00" }, { body_hash_claim: "h" }, "body_hash_mismatch"],
    ["has a hash that is a number", { h: 1 }, { body_hash_claim: "h" }, "body_hash_mismatch"],
    ["lacks the URL's hash", {}, { url_hash_claim: "u" }, "url_hash_missing"],
    ["has another URL's hash", { u: "00" }, { url_hash_claim: "u" }, "url_hash_mismatch"],
  ])("that %s", async (_what, claims, settings, reason) => {
    const token = await make(claims);
    expect(check(bearing(token, { ...config, ...settings }, { secret }))).toBe(reason);
  });

  it.each([
    ["expired a tenth of a second ago", { exp: NOW + 0.5 }, 600, "token_expired"],
    ["expires in a tenth of a second", { exp: NOW + 0.5 }, 400, "ok"],
    ["became valid a moment ago", { nbf: NOW + 0.5 }, 600, "ok"],
    ["is valid in a moment", { nbf: NOW + 0.5 }, 400, "token_not_yet_valid"],
    ["was issued a moment ago", { iat: NOW + 0.5 }, 600, "ok"],
    ["is as old as it may be, to the second", { iat: NOW - 10 }, 900, "ok"],
    ["is a second too old", { iat: NOW - 10 }, 1_000, "token_too_old"],
  ])("with times to a fraction of a second that %s", async (_what, claims, ms, reason) => {
    const settings = { ...config, clock_skew_seconds: 0, max_age_seconds: 10 };
    const token = await make({ iat: NOW, ...claims });
    const nowMs = NOW * 1_000 + ms;
    expect(check(bearing(token, settings, { secret, nowMs }))).toBe(reason);
  });

  it("without a hash of the body is accepted only when there is no body", async () => {
    const settings = { ...config, body_hash_claim: "h" };
    const checkBody = async (claims: object, body: string) =>
      check(bearing(await make(claims), settings, { secret, body: Buffer.from(body) }));
    expect(await checkBody({}, "")).toBe("ok");
    expect(await checkBody({}, "a")).toBe("body_hash_missing");
    const hashOfNothing = { h: createHash("sha256").digest("hex") };
    expect(await checkBody(hashOfNothing, "")).toBe("ok");
    expect(await checkBody(hashOfNothing, "a")).toBe("body_hash_mismatch");
    expect(await checkBody({ h: "00" }, "")).toBe("body_hash_mismatch");
  });

  it("is refused when its base64url is not canonical, padded or too long", async () => {
    const token = await make({});
    for (const text of [`${token}=`, `${token}.x`, `${token}\u00e9`, "..", "a.b.c", `e30.W10.AA`]) {
      expect(check(bearing(text, config, { secret }))).toBe("malformed_token");
    }
    // The last of 43 characters carries only four bits: three other characters would decode to the same bytes.
    const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const next = alphabet[alphabet.indexOf(token.at(-1) ?? "A") ^ 1];
    expect(check(bearing(token.slice(0, -1) + next, config, { secret }))).toBe("malformed_token");
  });

  it("sent twice, or under another scheme, is refused", async () => {
    const token = await make({});
    const header: [string, string] = ["authorization", `Bearer ${token}`];
    expect(check(bearing(token, config, { secret, headers: [header, header] }))).toBe(
      "duplicate_token",
    );
    const basic: [string, string] = ["Authorization", `Basic ${token}`];
    expect(check(bearing(token, config, { secret, headers: [basic] }))).toBe("malformed_token");
  });

  it("that needs keys which were not fetched is refused", async () => {
    const token = await new SignJWT({}).setProtectedHeader({ alg: "RS256" }).sign(rsa.privateKey);
    const url = { algorithms: ["RS256"], jwks_url: "https://keys.example/jwks" };
    expect(check(bearing(token, url))).toBe("jwks_unavailable");
  });
});
