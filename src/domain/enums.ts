/** The closed vocabularies of the specification, as the API, the stores and the pipeline spell them. */
export const PROVIDERS = ["stripe", "github", "shopify", "twilio", "linear", "custom"] as const;
export type Provider = (typeof PROVIDERS)[number];
export type KnownProvider = Exclude<Provider, "custom">;

export const VERIFICATION_METHODS = [
  "hmac_sha256",
  "hmac_sha1",
  "twilio_signature",
  "bearer_token",
  "basic_auth",
  "jwt",
  "ip_allowlist",
  "none",
] as const;
export type VerificationMethod = (typeof VERIFICATION_METHODS)[number];

export const RESOURCE_STATUSES = ["active", "paused", "disabled"] as const;
export type ResourceStatus = (typeof RESOURCE_STATUSES)[number];

export const RETRY_BACKOFFS = ["exponential", "linear", "fixed"] as const;
export type RetryBackoff = (typeof RETRY_BACKOFFS)[number];

export const RATE_LIMIT_WINDOWS = ["second", "minute", "hour", "day"] as const;
export type RateLimitWindow = (typeof RATE_LIMIT_WINDOWS)[number];

export const ATTEMPT_STATUSES = ["delivered", "failed", "rate_limited", "timeout", "dead"] as const;
export type AttemptStatus = (typeof ATTEMPT_STATUSES)[number];
