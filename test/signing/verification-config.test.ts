import { createPublicKey, generateKeyPairSync } from "node:crypto";
import { describe, expect, it } from "vitest";
import { VERIFICATION_METHODS } from "../../src/domain/enums.ts";
import type { VerificationMethod } from "../../src/domain/enums.ts";
import { SCHEMES } from "../../src/signing/registry.ts";
import { importPem } from "../../src/signing/jwt-keys.ts";
import { validateVerificationConfig } from "../../src/signing/verification-config.ts";
import { cpuSecondsOf } from "../support/cpu-seconds.ts";

const pem = (bits: number): string =>
  generateKeyPairSync("rsa", { modulusLength: bits })
    .publicKey.export({ type: "spki", format: "pem" })
    .toString();
const privatePem = generateKeyPairSync("ed25519")
  .privateKey.export({ type: "pkcs8", format: "pem" })
  .toString();
const pemOf = (namedCurve: string): string =>
  generateKeyPairSync("ec", { namedCurve })
    .publicKey.export({ type: "spki", format: "pem" })
    .toString();
const privateJwk = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });
const publicJwk = generateKeyPairSync("ed25519").publicKey.export({ format: "jwk" });

function validate(
  method: VerificationMethod,
  config: unknown,
  secret: string | null = "s",
): unknown {
  const verdict = validateVerificationConfig({
    provider: "custom",
    method,
    methodIsExplicit: true,
    config,
    secret,
  });
  return verdict.ok ? "ok" : verdict.field.replace("verification_config", "vc");
}

describe("a configuration that is written", () => {
  it.each(VERIFICATION_METHODS)("may be absent or empty for %s", (method) => {
    for (const config of [undefined, null, {}]) expect(validate(method, config)).toBe("ok");
  });

  it("allows a thousand addresses, which each request is compared with", () => {
    const list = (length: number) => ({ allowed_ips: Array.from({ length }, () => "::1") });
    expect(validate("ip_allowlist", list(1_000))).toBe("ok");
    expect(validate("ip_allowlist", list(1_001))).toBe("vc.allowed_ips");
  });

  it.each<[VerificationMethod, unknown, string]>([
    ["hmac_sha256", [], "vc"],
    ["hmac_sha256", "x", "vc"],
    ["hmac_sha256", { header: "x".repeat(70_000) }, "vc"],
    ["hmac_sha256", { encoding: "hex" }, "vc.header"],
    ["hmac_sha256", { header: "no spaces" }, "vc.header"],
    ["hmac_sha256", { header: [] }, "vc.header"],
    ["hmac_sha256", { header: "a", heading: "b" }, "vc.heading"],
    ["hmac_sha256", { header: "a", encoding: "base32" }, "vc.encoding"],
    ["hmac_sha256", { header: "a", prefix: 1 }, "vc.prefix"],
    ["hmac_sha256", { header: "a", allow_empty_body: "no" }, "vc.allow_empty_body"],
    ["hmac_sha256", { header: "a", tolerance_seconds: 1.5 }, "vc.tolerance_seconds"],
    ["hmac_sha256", { header: "a", tolerance_seconds: -1 }, "vc.tolerance_seconds"],
    ["hmac_sha256", { header: "a", tolerance_seconds: 2 ** 63 }, "ok"],
    ["hmac_sha256", { header: "a", tolerance_seconds: 2 ** 64 }, "vc.tolerance_seconds"],
    ["hmac_sha256", { header: "a", list_separator: "" }, "vc.list_separator"],
    ["hmac_sha256", { header: "a", header_format: "key_value" }, "vc.signature_key"],
    ["hmac_sha256", { header: "a", timestamp_key: "t" }, "vc.timestamp_key"],
    ["hmac_sha256", { header: "a", signed_payload: "{timestamp}{body}" }, "vc.timestamp_header"],
    ["hmac_sha256", { header: "a", signed_payload: "{id}{body}" }, "vc.id_header"],
    ["hmac_sha256", { header: "a", signed_payload: "{nonce}{body}" }, "vc.signed_payload"],
    ["hmac_sha256", { header: "a", signed_payload: "{timestamp}" }, "vc.signed_payload"],
    ["hmac_sha1", { header: "a", timestamp_header: "b c" }, "vc.timestamp_header"],
    ["hmac_sha1", { header: ["A", "b"], id_header: "c" }, "ok"],
    ["twilio_signature", { url: "example.com" }, "vc.url"],
    ["twilio_signature", { url: "https://example.com/a?b" }, "ok"],
    ["bearer_token", { header: "X-Api-Key", scheme: "" }, "ok"],
    ["bearer_token", { scheme: null }, "vc.scheme"],
    ["basic_auth", { username: "a:b" }, "vc.username"],
    ["basic_auth", { user: "a" }, "vc.user"],
    ["ip_allowlist", { allowed_ips: [] }, "vc.allowed_ips"],
    ["ip_allowlist", { allowed_ips: "10.0.0.1" }, "vc.allowed_ips"],
    ["ip_allowlist", { allowed_ips: ["10.0.0.0/33"] }, "vc.allowed_ips"],
    ["ip_allowlist", { allowed_ips: ["010.0.0.1"] }, "vc.allowed_ips"],
    ["ip_allowlist", { allowed_ips: ["10.0.0.0/8", "::ffff:192.0.2.0/120"] }, "ok"],
    ["none", { header: "a" }, "vc.header"],
    ["jwt", { header: "a" }, "vc.algorithms"],
    ["jwt", { algorithms: [] }, "vc.algorithms"],
    ["jwt", { algorithms: ["none"] }, "vc.algorithms"],
    ["jwt", { algorithms: "HS256" }, "vc.algorithms"],
    ["jwt", { algorithms: ["HS256"] }, "ok"],
    ["jwt", { algorithms: ["HS256", "RS256"], public_key: pem(2048) }, "vc.algorithms"],
    ["jwt", { algorithms: ["HS256", "RS256"] }, "vc.algorithms"],
    ["jwt", { algorithms: ["RS256", "HS256", "none"] }, "vc.algorithms"],
    ["jwt", { algorithms: ["HS256"], public_key: pem(2048) }, "vc.algorithms"],
    ["jwt", { algorithms: ["RS256"] }, "vc.public_key"],
    ["jwt", { algorithms: ["RS256"], public_key: "-----BEGIN" }, "vc.public_key"],
    ["jwt", { algorithms: ["RS256"], public_key: pem(1024) }, "vc.public_key"],
    ["jwt", { algorithms: ["EdDSA"], public_key: privatePem }, "vc.public_key"],
    ["jwt", { algorithms: ["RS256"], public_key: pem(2048) }, "ok"],
    ["jwt", { algorithms: ["EdDSA"], jwks: {} }, "vc.jwks"],
    ["jwt", { algorithms: ["EdDSA"], jwks: { keys: [] } }, "vc.jwks"],
    ["jwt", { algorithms: ["EdDSA"], jwks: { keys: [1] } }, "vc.jwks"],
    ["jwt", { algorithms: ["EdDSA"], jwks: { keys: [{ kty: "oct", k: "AA" }] } }, "vc.jwks"],
    ["jwt", { algorithms: ["EdDSA"], jwks: { keys: [privateJwk] } }, "vc.jwks"],
    ["jwt", { algorithms: ["EdDSA"], jwks: { keys: [{ ...publicJwk, use: "enc" }] } }, "vc.jwks"],
    ["jwt", { algorithms: ["EdDSA"], jwks: { keys: [publicJwk, { kty: "new" }] } }, "ok"],
    [
      "jwt",
      { algorithms: ["EdDSA"], jwks: { keys: [publicJwk] }, jwks_url: "https://a" },
      "vc.jwks_url",
    ],
    ["jwt", { algorithms: ["EdDSA"], jwks_url: "ftp://a.example/k" }, "vc.jwks_url"],
    ["jwt", { algorithms: ["EdDSA"], jwks_url: "https://a.example/k" }, "ok"],
    ["jwt", { algorithms: ["HS256"], issuer: [] }, "vc.issuer"],
    ["jwt", { algorithms: ["HS256"], max_age_seconds: "1" }, "vc.max_age_seconds"],
  ])("%s %j is answered with %s", (method, config, expected) => {
    expect(validate(method, config)).toBe(expected);
  });

  it.each<[string, string, unknown]>([
    ["RSA for ES256", "vc.public_key", { algorithms: ["ES256"], public_key: pem(2048) }],
    ["P-256 for RS256", "vc.public_key", { algorithms: ["RS256"], public_key: pemOf("P-256") }],
    ["P-256 for ES384", "vc.public_key", { algorithms: ["ES384"], public_key: pemOf("P-256") }],
    [
      "secp256k1 for ES256",
      "vc.public_key",
      { algorithms: ["ES256"], public_key: pemOf("secp256k1") },
    ],
    ["Ed25519 for ES256", "vc.jwks", { algorithms: ["ES256"], jwks: { keys: [publicJwk] } }],
    [
      "Ed25519 that says ES256 for EdDSA",
      "vc.jwks",
      { algorithms: ["EdDSA"], jwks: { keys: [{ ...publicJwk, alg: "ES256" }] } },
    ],
    ["P-256 for ES256", "ok", { algorithms: ["ES256"], public_key: pemOf("P-256") }],
    ["RSA for PS256 or ES256", "ok", { algorithms: ["PS256", "ES256"], public_key: pem(2048) }],
  ])(
    "a key %s is answered with %s: one for no algorithm was taken, and every token refused",
    (_key, expected, config) => {
      expect(validate("jwt", config)).toBe(expected);
    },
  );

  it("a template that names a part twice is refused: a body of 3 MB was hashed 1,300 times, and the pool took no other endpoint's requests meanwhile", () => {
    const timestamped = { header: "a", timestamp_header: "b", id_header: "c" };
    for (const signed_payload of [
      "{body}".repeat(1_300),
      "{body}.{body}",
      "{id}{id}{body}",
      "{path}{body}{path}",
      "{timestamp}.{body}.{timestamp}",
      "{method}{method}{body}",
    ])
      expect(validate("hmac_sha256", { ...timestamped, signed_payload })).toBe("vc.signed_payload");
    const signed_payload = "{id}.{timestamp}.{method}.{path}.{body}";
    expect(validate("hmac_sha256", { ...timestamped, signed_payload })).toBe("ok");
  });

  it("a jwks_url of 8 KB that ends in a blank is refused at once: each took the thread 50 ms", async () => {
    const config = { algorithms: ["EdDSA"], jwks_url: `https://${"a".repeat(8_180)} ` };
    const seconds = await cpuSecondsOf(() => {
      for (let index = 0; index < 100; index += 1)
        expect(validate("jwt", config)).toBe("vc.jwks_url");
    });
    expect(seconds).toBeLessThan(1);
  });

  it.each<[VerificationMethod, unknown, string, string]>([
    ["bearer_token", {}, "line1\nline2", "secret"],
    ["bearer_token", {}, "пароль", "secret"],
    ["bearer_token", {}, "token ", "secret"],
    ["bearer_token", { header: "X-Api-Key", scheme: "" }, " token", "secret"],
    ["bearer_token", {}, "geheím of two words", "ok"],
    ["bearer_token", {}, "geheimé", "secret"],
    ["bearer_token", { header: "X-Api-Key", scheme: "" }, "élysée 1", "secret"],
    ["bearer_token", { scheme: "Clé" }, "s", "vc.scheme"],
    ["bearer_token", { scheme: "A\nB" }, "s", "vc.scheme"],
    ["bearer_token", { scheme: "日本" }, "s", "vc.scheme"],
    ["bearer_token", { scheme: " Token" }, "s", "vc.scheme"],
    ["bearer_token", { scheme: "Token " }, "s", "vc.scheme"],
    ["jwt", { scheme: "Bearer ", algorithms: ["HS256"] }, "s", "vc.scheme"],
    ["jwt", { scheme: "", algorithms: ["HS256"] }, "s", "ok"],
    ["bearer_token", { header: "Connection" }, "s", "vc.header"],
    ["hmac_sha256", { header: "a", prefix: "a\nb" }, "line1\nline2", "vc.prefix"],
    ["hmac_sha256", { header: "a", prefix: "日本=" }, "s", "vc.prefix"],
    ["hmac_sha256", { header: "a", prefix: "v1, é=" }, "line1\nпароль", "ok"],
    ["hmac_sha256", { header: ["X-Signature", "Content-Length"] }, "s", "vc.header"],
    ["hmac_sha256", { header: "a", id_header: "Upgrade" }, "s", "vc.id_header"],
    ["hmac_sha1", { header: "Transfer-Encoding" }, "s", "vc.header"],
    ["hmac_sha1", { header: "EXPECT" }, "s", "vc.header"],
    ["hmac_sha1", { header: "Keep-Alive" }, "s", "vc.header"],
    ["hmac_sha1", { header: "Content-MD5" }, "s", "ok"],
    ["basic_auth", { username: "u" }, "line1\nпароль", "ok"],
    ["jwt", { header: "Host", algorithms: ["HS256"] }, "s", "vc.header"],
  ])(
    "%s %j with the secret %j can stand in a header, or is refused: it was taken and never worked",
    (method, config, secret, expected) => {
      expect(validate(method, config, secret)).toBe(expected);
    },
  );

  const keyValue = { header: "a", header_format: "key_value" };
  const base64 = { header: "a", encoding: "base64" };
  const base64url = { header: "a", encoding: "base64url" };
  it.each<[string, unknown]>([
    ["vc.signature_key", { ...keyValue, signature_key: "v1=" }],
    ["vc.signature_key", { ...keyValue, signature_key: "t,v1" }],
    ["vc.signature_key", { ...keyValue, signature_key: " v1" }],
    ["vc.signature_key", { ...keyValue, signature_key: "a;b", list_separator: ";" }],
    ["ok", { ...keyValue, signature_key: "a;b" }],
    ["ok", { ...keyValue, signature_key: "v1 " }],
    ["vc.list_separator", { ...keyValue, signature_key: "v1", list_separator: "=" }],
    ["vc.timestamp_key", { ...keyValue, signature_key: "v1", timestamp_key: "t=" }],
    ["vc.timestamp_key", { ...keyValue, signature_key: "v1", timestamp_key: "v1" }],
    ["vc.prefix", { ...keyValue, signature_key: "v1", prefix: "a,b" }],
    ["ok", { ...keyValue, signature_key: "v1", prefix: " sha256=", timestamp_key: "t" }],
    ["vc.prefix", { header: "a", header_format: "list", list_separator: ",", prefix: "v1," }],
    ["vc.prefix", { header: "a", header_format: "list", prefix: " v1" }],
    ["vc.prefix", { header: "a", header_format: "list", prefix: "é=" }],
    ["ok", { header: "a", header_format: "list", prefix: "v1," }],
    ["vc.prefix", { header: "a", prefix: " sha256=" }],
    ["vc.prefix", { header: "a", prefix: "é=" }],
    ["ok", { header: "a", prefix: "sha256= " }],
    ["vc.list_separator", { ...keyValue, signature_key: "v1", list_separator: "a" }],
    ["vc.list_separator", { header: "a", header_format: "list", list_separator: "00" }],
    ["vc.list_separator", { ...base64, header_format: "list", list_separator: "/" }],
    ["vc.list_separator", { ...base64, header_format: "list", list_separator: "=" }],
    ["vc.list_separator", { ...base64url, header_format: "list", list_separator: "_" }],
    ["ok", { ...base64, header_format: "list", list_separator: "_" }],
    ["ok", { ...base64url, header_format: "list", list_separator: "/" }],
    ["ok", { ...keyValue, signature_key: "v1", list_separator: "a " }],
  ])(
    "is answered with %s for the texts around a signature in %j: ones that the header's format cuts were taken, and every webhook refused",
    (expected, config) => {
      expect(validate("hmac_sha256", config)).toBe(expected);
    },
  );

  it.each<[string, unknown]>([
    ["vc.timestamp_header", { header: "X-Signature", timestamp_header: "x-signature" }],
    ["vc.timestamp_header", { header: ["a", "A"], timestamp_header: "a" }],
    ["vc.timestamp_header", { header: ["a", "b"], timestamp_header: "A" }],
    ["ok", { header: ["b", "a"], timestamp_header: "A" }],
    ["vc.id_header", { header: "a", id_header: "A", signed_payload: "{id}.{body}" }],
    ["vc.id_header", { header: ["a", "b"], id_header: "a", signed_payload: "{id}.{body}" }],
    ["vc.id_header", { header: "a", timestamp_header: "b", id_header: "B" }],
    ["ok", { header: "a", id_header: "a" }],
    ["ok", { header: ["a", "b"], timestamp_header: "b", id_header: "c" }],
    ["ok", { header: "a", timestamp_header: "b", id_header: "c" }],
  ])(
    "is answered with %s for the headers in %j: one for the signature and for what is signed was taken, and no webhook could have both",
    (expected, config) => {
      expect(validate("hmac_sha256", config)).toBe(expected);
    },
  );

  it("with an RSA key that is dear to check is refused: a hundred of them held a thread for most of a second for each forged token", () => {
    const jwk = (bits: number, exponent: string) => ({
      kty: "RSA",
      n: Buffer.alloc(bits / 8, 0xff).toString("base64url"),
      e: Buffer.from(exponent, "hex").toString("base64url"),
    });
    const verdictOf = (key: object) =>
      validate("jwt", { algorithms: ["RS256"], jwks: { keys: [key] } });
    expect(verdictOf(jwk(3072, "010001"))).toBe("ok");
    expect(verdictOf(jwk(8192, "01ffffffff"))).toBe("ok");
    expect(verdictOf(jwk(3072, "03ffffffff"))).toBe("vc.jwks");
    expect(verdictOf(jwk(3072, "7f".repeat(380)))).toBe("vc.jwks");
    expect(verdictOf(jwk(8200, "010001"))).toBe("vc.jwks");
    const keys = (count: number) => ({ keys: Array.from({ length: count }, () => publicJwk) });
    for (const [count, verdict] of [
      [100, "ok"],
      [101, "vc.jwks"],
    ] as const)
      expect(validate("jwt", { algorithms: ["EdDSA"], jwks: keys(count) })).toBe(verdict);
  });

  it("with a public key that is longer than any real one is refused by its length, before its numbers are read: one held the process for eighty seconds", () => {
    const e = Buffer.alloc(3_000, 0x7f).toString("base64url");
    const n = Buffer.alloc(256, 0xff).toString("base64url");
    const long = createPublicKey({ key: { kty: "RSA", n, e }, format: "jwk" });
    const imported = importPem(String(long.export({ type: "spki", format: "pem" })));
    expect(imported).toEqual({
      ok: false,
      message: expect.stringMatching(/^has 3\d\d\d bytes: at most 2048 are taken$/),
    });
  });

  it.each<[VerificationMethod, unknown]>([
    ["jwt", { algorithms: ["HS256"] }],
    ["hmac_sha256", { header: "a" }],
    ["hmac_sha1", { header: "a" }],
  ])(
    "with a public key as the secret of %s is refused: anybody could sign with it",
    (method, config) => {
      expect(validate(method, config, pem(2048))).toBe("secret");
      expect(validate(method, config, "-----BEGIN CERTIFICATE-----\nMII")).toBe("secret");
      expect(validate(method, config, "PUBLIC KEY")).toBe("ok");
    },
  );

  it("of HS and other algorithms is told that they do not mix: a public key was asked for first", () => {
    const verdict = validateVerificationConfig({
      provider: "custom",
      method: "jwt",
      methodIsExplicit: true,
      config: { algorithms: ["HS256", "RS256"] },
      secret: "s",
    });
    expect(verdict).toMatchObject({
      ok: false,
      field: "verification_config.algorithms",
      message: expect.stringContaining("must not mix HS algorithms"),
    });
  });

  it("needs a secret that its encoding can read", () => {
    const config = { header: "a", secret_encoding: "hex" };
    expect(validate("hmac_sha256", config, "xyz")).toBe("secret");
    expect(validate("hmac_sha256", config, "abcd")).toBe("ok");
    expect(validate("hmac_sha256", config, null)).toBe("ok");
    const prefixed = { header: "a", secret_encoding: "base64", secret_prefix: "whsec_" };
    expect(validate("hmac_sha256", prefixed, "whsec_")).toBe("secret");
    expect(validate("hmac_sha256", prefixed, "whsec_AAAA")).toBe("ok");
    expect(validate("jwt", { algorithms: ["HS256"], secret_encoding: "base64" }, "%")).toBe(
      "secret",
    );
  });

  it("regression: a secret that is only its prefix is told so, not that it must be utf8, which nobody had set", () => {
    const verdict = validateVerificationConfig({
      provider: "custom",
      method: "hmac_sha256",
      methodIsExplicit: true,
      config: { header: "a", secret_prefix: "whsec_" },
      secret: "whsec_",
    });
    const message = "must hold more than verification_config.secret_prefix";
    expect(verdict).toEqual({ ok: false, field: "secret", message });
  });

  it("goes on top of a known provider's preset", () => {
    const stripe = { provider: "stripe", method: "hmac_sha256", methodIsExplicit: false } as const;
    const config = { tolerance_seconds: 10 };
    expect(validateVerificationConfig({ ...stripe, config, secret: "s" })).toEqual({
      ok: true,
      config,
    });
    expect(
      validateVerificationConfig({ ...stripe, methodIsExplicit: true, config, secret: "s" }),
    ).toMatchObject({ ok: false, field: "verification_config.header" });
  });

  it("is refused at ingest too when it got in by another way, with the setting's name", () => {
    const request = {} as never;
    expect(SCHEMES.hmac_sha256.prepare({})(request)).toMatchObject({ reason: "missing_config" });
    const wrong = SCHEMES.hmac_sha256.prepare({ header: "a", encoding: "x" })(request);
    expect(wrong).toMatchObject({ reason: "invalid_config" });
    expect(wrong.message).toContain("verification_config.encoding");
  });
});
