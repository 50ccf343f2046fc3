import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { VerificationRequest } from "../../src/domain/verification.ts";
import { makePreparedChecks } from "../../src/signing/prepared-checks.ts";
import { signSample } from "../../src/signing/sign-sample.ts";
import { NOW_MS, makeRequest } from "../support/verify-requests.ts";

const check = (request: VerificationRequest): string =>
  makePreparedChecks()(request)(request).reason;

function signed(parts: Partial<VerificationRequest>): VerificationRequest {
  const request = makeRequest(parts);
  return { ...request, headers: [...request.headers, ...signSample({ ...request, id: "msg_1" })] };
}

const encodings = ["hex", "base64", "base64url"] as const;
const secretOf = fc.record({
  encoding: fc.constantFrom("utf8", ...encodings),
  bytes: fc.uint8Array({ minLength: 16, maxLength: 80 }),
});

/** Every shape of HMAC configuration that the relay can sign for. */
const hmacRequest = fc
  .record({
    method: fc.constantFrom("hmac_sha256" as const, "hmac_sha1" as const),
    format: fc.constantFrom("plain", "key_value", "list"),
    encoding: fc.constantFrom(...encodings),
    prefix: fc.constantFrom("", "sha256=", "v1,", "v0="),
    secret: secretOf,
    timestamp: fc.constantFrom("none", "key", "header"),
    unit: fc.constantFrom("s", "ms"),
    hasId: fc.boolean(),
    literal: fc.constantFrom("", ".", "v0:", "é", "{}x"),
    body: fc.uint8Array({ minLength: 1, maxLength: 300 }),
  })
  .map((shape): VerificationRequest => {
    const isKeyed = shape.format === "key_value";
    const timestamp = shape.timestamp === "key" && !isKeyed ? "header" : shape.timestamp;
    const config: Record<string, unknown> = {
      header: "X-Signature",
      header_format: shape.format,
      encoding: shape.encoding,
      prefix: isKeyed ? "" : shape.prefix,
      secret_encoding: shape.secret.encoding,
      timestamp_unit: shape.unit,
      signed_payload: `${shape.literal.replace("{}", "")}${timestamp === "none" ? "" : "{timestamp}"}${shape.hasId ? "{id}" : ""}{method}{path}.{body}`,
    };
    if (isKeyed) config["signature_key"] = "v1";
    if (timestamp === "key") config["timestamp_key"] = "t";
    if (timestamp === "header") config["timestamp_header"] = "X-Time";
    if (shape.hasId) config["id_header"] = "X-Id";
    const { bytes, encoding } = shape.secret;
    const secret =
      encoding === "utf8"
        ? Buffer.from(bytes).toString("hex")
        : Buffer.from(bytes).toString(encoding);
    return signed({ method: shape.method, secret, config, body: shape.body });
  });

const preset = fc
  .record({
    provider: fc.constantFrom(
      "stripe" as const,
      "github" as const,
      "shopify" as const,
      "linear" as const,
    ),
    body: fc.json().map((text) => Buffer.from(text)),
    secret: fc.string({ minLength: 1 }),
  })
  .map((shape) => signed({ ...shape, config: {}, methodIsExplicit: false }));

const twilio = fc
  .record({
    form: fc.dictionary(fc.string(), fc.string(), { maxKeys: 8 }),
    secret: fc.string({ minLength: 1 }),
  })
  .map(({ form, secret }) =>
    signed({
      provider: "twilio",
      method: "twilio_signature",
      methodIsExplicit: false,
      config: {},
      secret,
      headers: [["Content-Type", "application/x-www-form-urlencoded; charset=utf-8"]],
      body: Buffer.from(new URLSearchParams(toWellFormed(form)).toString()),
    }),
  );

function toWellFormed(form: Record<string, string>): [string, string][] {
  return Object.entries(form).map(([name, value]) => [
    Buffer.from(name).toString(),
    Buffer.from(value).toString(),
  ]);
}

const anySigned = fc.oneof(hmacRequest, preset);

describe("what is signed verifies", () => {
  it("for every HMAC configuration", () => {
    fc.assert(
      fc.property(hmacRequest, (request) => check(request) === "ok"),
      { numRuns: 1500 },
    );
  });
  it("for every preset", () => {
    fc.assert(
      fc.property(preset, (request) => check(request) === "ok"),
      { numRuns: 500 },
    );
  });
  it("for Twilio's forms", () => {
    fc.assert(
      fc.property(twilio, (request) => check(request) === "ok"),
      { numRuns: 500 },
    );
  });
  it("for bearer tokens and basic credentials", () => {
    // Header values are visible ASCII; blanks at the ends would be trimmed on the wire.
    const secret = fc.stringMatching(/^[!-~]{1,40}$/);
    fc.assert(
      fc.property(secret, (text) => {
        const basic = { method: "basic_auth", config: { username: "usér" } } as const;
        expect(check(signed({ method: "bearer_token", config: {}, secret: text }))).toBe("ok");
        expect(
          check(
            signed({
              method: "bearer_token",
              config: { header: "X-Api-Key", scheme: "" },
              secret: text,
            }),
          ),
        ).toBe("ok");
        expect(check(signed({ ...basic, secret: text }))).toBe("ok");
      }),
    );
  });
});

describe("a change of one byte is refused", () => {
  const position = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
  const flip = fc.integer({ min: 1, max: 255 });

  it("in the body", () => {
    fc.assert(
      fc.property(anySigned, position, flip, (request, at, bits) => {
        const body = Uint8Array.from(request.body);
        const index = Math.floor(at * body.length);
        body[index] = (body[index] ?? 0) ^ bits;
        return check({ ...request, body }) !== "ok";
      }),
      { numRuns: 1500 },
    );
  });

  it("in the value of a signature, timestamp or id header", () => {
    fc.assert(
      fc.property(anySigned, position, position, flip, (request, which, at, bits) => {
        const headers = request.headers.map(([name, value]) => [name, value] as [string, string]);
        // Linear's timestamp header is not signed: it is compared with the clock only.
        const target = headers[Math.floor(which * headers.length)];
        if (target === undefined || target[0] === "Linear-Timestamp") return true;
        const index = Math.floor(at * target[1].length);
        const changed = String.fromCharCode(target[1].charCodeAt(index) ^ (bits & 0x7f || 1));
        // Hex digits mean the same in either case, and blanks around a value are not part of it.
        const isSame =
          changed.toLowerCase() === target[1][index]?.toLowerCase() && /[a-f]/i.test(changed);
        if (isSame || /\s/.test(changed)) return true;
        target[1] = target[1].slice(0, index) + changed + target[1].slice(index + 1);
        const isHexOnly = (request.config["encoding"] ?? "hex") !== "hex" && isSame;
        return isHexOnly || check({ ...request, headers }) !== "ok";
      }),
      { numRuns: 3000 },
    );
  });

  it("in the secret", () => {
    fc.assert(
      fc.property(anySigned, position, (request, at) => {
        const secret = request.secret ?? "";
        const encoding = request.config["secret_encoding"] ?? "utf8";
        const index = Math.floor(at * secret.length);
        const replacement = secret[index] === "0" ? "1" : "0";
        const changed = secret.slice(0, index) + replacement + secret.slice(index + 1);
        if (encoding !== "utf8" && isSameKey(secret, changed, encoding as BufferEncoding))
          return true;
        return check({ ...request, secret: changed }) !== "ok";
      }),
      { numRuns: 1500 },
    );
  });

  it("in the time, beyond the tolerance and in both directions", () => {
    const stripe = (nowMs: number): VerificationRequest =>
      signed({ provider: "stripe", methodIsExplicit: false, config: {}, nowMs });
    fc.assert(
      fc.property(fc.integer({ min: 301_000, max: 1e9 }), (offsetMs) => {
        const request = stripe(NOW_MS);
        expect(check({ ...request, nowMs: NOW_MS + offsetMs })).toBe("timestamp_too_old");
        expect(check({ ...request, nowMs: NOW_MS - offsetMs })).toBe("timestamp_too_new");
      }),
    );
    expect(check({ ...stripe(NOW_MS), nowMs: NOW_MS + 300_000 })).toBe("ok");
    expect(check({ ...stripe(NOW_MS), nowMs: NOW_MS - 300_000 })).toBe("ok");
  });
});

function isSameKey(a: string, b: string, encoding: BufferEncoding): boolean {
  return Buffer.from(a, encoding).equals(Buffer.from(b, encoding));
}

it("a Shopify sample has the header that receivers look for: where the test was passed on with its signature, they found none", () => {
  const request = signed({ provider: "shopify", config: {}, methodIsExplicit: false });
  expect(request.headers.map(([name]) => name)).toContain("X-Shopify-Hmac-Sha256");
  expect(check(request)).toBe("ok");
});
