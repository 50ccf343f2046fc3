import { describe, expect, test } from "vitest";
import type { VerificationMethod } from "../../../src/domain/enums.ts";
import { makeRedactionRule, redactHeaders } from "../../../src/pipeline/ingest/redact.ts";
import { cpuSecondsOf } from "../../support/cpu-seconds.ts";

/** The header and claims of a JWT. */
const TOKEN = ['{"alg":"HS256"}', '{"sub":"acme"}']
  .map((part) => Buffer.from(part).toString("base64url"))
  .join(".");

function redact(
  method: VerificationMethod,
  config: Record<string, unknown>,
  name: string,
  value: string,
): string {
  const [header] = redactHeaders([[name, value]], makeRedactionRule({ method, config }));
  return header?.[1] ?? "";
}

describe("redaction before the log", () => {
  test.each([
    ["none", {}, "Authorization", "Basic abc"],
    ["none", {}, "cookie", "a=b"],
    ["none", {}, "Proxy-Authorization", "x"],
    ["bearer_token", { header: "X-Api-Key" }, "x-api-key", "key"],
    ["bearer_token", { header: "X-Api-Key" }, "authorization", "other"],
    ["bearer_token", {}, "authorization", `Bearer ${TOKEN}.c`],
    ["hmac_sha256", {}, "authorization", `Bearer ${TOKEN}.c`],
    ["basic_auth", {}, "authorization", "Basic dTpw"],
    ["jwt", {}, "authorization", "Bearer not-a-jwt"],
    ["jwt", {}, "authorization", "Bearer a.b.c d.e.f"],
    ["jwt", {}, "authorization", "Bearer a.b.c.secret"],
    ["jwt", {}, "authorization", "Bearer SG.keypart.secretpart"],
    ["jwt", {}, "authorization", `Bearer ${TOKEN}.d.e`],
    ["jwt", { header: "x-token" }, "authorization", `Bearer ${TOKEN}.c`],
  ] as const)("%s %j hides %s: %s", (method, config, name, value) => {
    expect(redact(method, config, name, value)).toBe("[redacted]");
  });

  test("a JWT keeps header and claims, its signature is cut", () => {
    const shown = `${TOKEN}.[redacted]`;
    expect(redact("jwt", {}, "Authorization", `Bearer ${TOKEN}.cc-_`)).toBe(`Bearer ${shown}`);
    expect(redact("jwt", { header: "X-Token" }, "x-token", `${TOKEN}.cc`)).toBe(shown);
    expect(redact("jwt", {}, "Authorization", `Bearer ${TOKEN}.`)).toBe(`Bearer ${shown}`);
  });

  test.each([
    ["a token without end", "a"],
    ["dots", "."],
    ["tokens cut short", "a."],
    ["words", "a "],
  ])("a long value is hidden at once: %s", async (_name, piece) => {
    const value = `Bearer ${piece.repeat(100_000)}`;
    const seconds = await cpuSecondsOf(() =>
      expect(redact("jwt", {}, "Authorization", value)).toBe("[redacted]"),
    );
    // Takes a millisecond; a pattern that starts over at every character takes many seconds.
    expect(seconds).toBeLessThan(2);
  });

  test("signatures of providers and everything else stay as sent", () => {
    const rule = makeRedactionRule({ method: "hmac_sha256", config: { header: "X-Sig" } });
    const headers = [
      ["X-Sig", "abc"],
      ["stripe-signature", "t=1,v1=2"],
    ] as const;
    expect(redactHeaders(headers, rule)).toBe(headers);
  });
});
