import type { Provider } from "../domain/enums.ts";

interface Hints {
  readonly missingHeader: string;
  readonly mismatch: string;
}

const HINTS: Readonly<Record<Provider, Hints>> = {
  stripe: {
    missingHeader: "is the endpoint's URL the one in Stripe's dashboard?",
    mismatch:
      "set the endpoint's secret to the signing secret (whsec_…) of this very endpoint in Stripe's dashboard; each endpoint, and the Stripe CLI, has its own",
  },
  github: {
    missingHeader:
      "set a secret on the webhook in GitHub's settings; the older X-Hub-Signature (SHA-1) alone is not accepted",
    mismatch: "set the endpoint's secret to the secret of the webhook in GitHub's settings",
  },
  shopify: {
    missingHeader: "is the sender Shopify, and is this the URL of the subscription?",
    mismatch:
      "set the endpoint's secret to the app's client secret, or for webhooks made in the admin to the key shown below them",
  },
  twilio: {
    missingHeader: "is the endpoint's URL the one in Twilio's console?",
    mismatch:
      "set the endpoint's secret to the account's auth token (where a Webhooks Rule signs with a SharedKey, to the key's secret), and verification_config.url to the URL as it stands in Twilio's console when it differs from the endpoint's",
  },
  linear: {
    missingHeader: "is the endpoint's URL the one in Linear's webhook settings?",
    mismatch: "set the endpoint's secret to the signing secret on the webhook's page in Linear",
  },
  custom: {
    missingHeader:
      "is the sender configured to sign, and verification_config.header the name it uses?",
    mismatch:
      "compare the endpoint's secret and verification_config (signed_payload, secret_encoding) with the sender's settings",
  },
};

export function missingHeaderHint(provider: Provider): string {
  return HINTS[provider].missingHeader;
}

/**
 * Suggests why a signature does not match. Blanks around a stored secret are a common copy-and-paste slip, invisible in
 * any form.
 */
export function mismatchHint(provider: Provider, secret: string | null): string {
  if (secret !== null && secret.trim() !== secret) {
    return "the stored secret begins or ends with white space; store it without, unless the provider's has it";
  }
  return HINTS[provider].mismatch;
}
