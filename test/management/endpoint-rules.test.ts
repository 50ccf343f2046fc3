import { describe, expect, it } from "vitest";
import { decideVerification } from "../../src/management/endpoint-rules.ts";
import type { VerificationSettings } from "../../src/domain/verification.ts";

function settings(fields: Partial<VerificationSettings>): VerificationSettings {
  return {
    provider: "custom",
    method: "hmac_sha256",
    methodIsExplicit: true,
    secret: "s",
    config: {},
    ...fields,
  };
}

const STRIPE = settings({
  provider: "stripe",
  methodIsExplicit: false,
  config: { tolerance_seconds: 600 },
});
const OWN = settings({ provider: "github", config: { header: "X-Signature", prefix: "v1=" } });

describe("a PATCH of an endpoint", () => {
  it.each([
    ["keeps the method chosen at a known provider when only the secret is new", OWN, {}, {}],
    ["keeps the settings of a provider's own scheme when only the secret is new", STRIPE, {}, {}],
    [
      "drops a provider's settings with the provider, though both sign in the same way",
      STRIPE,
      { provider: "linear" },
      { provider: "linear", config: {} },
    ],
    [
      "drops a provider's settings for a method of one's own, though it is the same",
      STRIPE,
      { provider: "custom", verificationMethod: "hmac_sha256" },
      { provider: "custom", methodIsExplicit: true, config: {} },
    ],
    [
      "drops a provider's settings for another method",
      settings({ ...STRIPE, config: { header: "X-Signature" } }),
      { verificationMethod: "hmac_sha1" },
      { method: "hmac_sha1", methodIsExplicit: true, config: {} },
    ],
    [
      "drops one's own settings for a provider's scheme, which they would bend",
      settings({ config: { header: "X-Signature" } }),
      { provider: "stripe" },
      { provider: "stripe", methodIsExplicit: false, config: {} },
    ],
    [
      "keeps one's own settings for another method that takes them",
      OWN,
      { verificationMethod: "hmac_sha1" },
      { method: "hmac_sha1" },
    ],
  ] as const)("%s", (_, current, input, changed) => {
    const wanted = { ...current, secret: "new", ...changed };
    expect(decideVerification(current, { secret: "new", ...input })).toEqual(wanted);
  });

  it("refuses a secret that the settings it keeps cannot read: every webhook would be refused", () => {
    const current = settings({
      secret: "00ff",
      config: { header: "X-Signature", secret_encoding: "hex" },
    });
    expect(() => decideVerification(current, { secret: "no hex" })).toThrow("secret: must be hex");
  });
});
