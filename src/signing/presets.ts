import type { KnownProvider, Provider, VerificationMethod } from "../domain/enums.ts";
import type { Config } from "./settings-reader.ts";
import type { VerificationSettings } from "../domain/verification.ts";

export interface Preset {
  readonly method: VerificationMethod;
  readonly config: Config;
}

/** How each known provider signs; an endpoint's own settings override these. */
export const PRESETS: Readonly<Record<KnownProvider, Preset>> = {
  // https://docs.stripe.com/webhooks#verify-manually
  stripe: {
    method: "hmac_sha256",
    config: {
      header: "Stripe-Signature",
      header_format: "key_value",
      timestamp_key: "t",
      signature_key: "v1",
      encoding: "hex",
      signed_payload: "{timestamp}.{body}",
      tolerance_seconds: 300,
      allow_empty_body: false,
    },
  },
  // https://docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries
  github: {
    method: "hmac_sha256",
    config: {
      header: "X-Hub-Signature-256",
      prefix: "sha256=",
      encoding: "hex",
      signed_payload: "{body}",
      allow_empty_body: false,
    },
  },
  // https://shopify.dev/docs/apps/build/webhooks/subscribe/https
  shopify: {
    method: "hmac_sha256",
    config: {
      header: ["Shopify-Hmac-Sha256", "X-Shopify-Hmac-Sha256"],
      encoding: "base64",
      signed_payload: "{body}",
      allow_empty_body: false,
    },
  },
  // https://www.twilio.com/docs/usage/webhooks/webhooks-security
  twilio: { method: "twilio_signature", config: { header: "X-Twilio-Signature" } },
  // https://linear.app/developers/webhooks#securing-webhooks
  linear: {
    method: "hmac_sha256",
    config: {
      header: "Linear-Signature",
      encoding: "hex",
      signed_payload: "{body}",
      timestamp_body_field: "webhookTimestamp",
      timestamp_header: "Linear-Timestamp",
      timestamp_unit: "ms",
      timestamp_optional: true,
      tolerance_seconds: 60,
      allow_empty_body: false,
    },
  },
};

/** Returns null for `custom`, which has no preset. */
export function presetOf(provider: Provider): Preset | null {
  return provider === "custom" ? null : PRESETS[provider];
}

/**
 * Returns the settings in force: the preset's overridden by the endpoint's own, or only the latter when the method was
 * chosen explicitly.
 */
export function effectiveConfig({
  provider,
  method,
  methodIsExplicit,
  config,
}: Omit<VerificationSettings, "secret">): Config {
  const preset = methodIsExplicit ? null : presetOf(provider);
  return preset === null || preset.method !== method ? config : { ...preset.config, ...config };
}
