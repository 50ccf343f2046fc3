import { z } from "@hono/zod-openapi";
import { RATE_LIMIT_WINDOWS, RESOURCE_STATUSES, RETRY_BACKOFFS } from "../../domain/enums.ts";
import { MAX_RECEIVER_URL } from "../../domain/receiver-url.ts";
import { EXAMPLE_TIME, exampleId, id, nullableTimestamp, text, timestamp } from "./common.ts";
import { nameText } from "./project.ts";

const MAX_RATE_LIMIT = 2_147_483_647;
const example = {
  id: exampleId("destination"),
  endpoint_id: exampleId("endpoint"),
  org_id: exampleId("organization"),
  name: "Ledger",
  receiver_url: "https://hooks.example.com/ledger",
  forward_original_signature: false,
  status: "active",
  retry_max_attempts: 5,
  retry_backoff: "exponential",
  rate_limit_max: null,
  rate_limit_window: null,
  created_at: EXAMPLE_TIME,
  updated_at: EXAMPLE_TIME,
  deleted_at: null,
} as const;
const EXAMPLE_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=";

export const DestinationSchema = z
  .object({
    id: id("destination"),
    endpoint_id: id("endpoint"),
    org_id: id("organization"),
    name: z.string(),
    receiver_url: z.string().openapi({ format: "uri" }),
    forward_original_signature: z.boolean(),
    status: z.enum(RESOURCE_STATUSES),
    retry_max_attempts: z
      .number()
      .int()
      .openapi({ minimum: 0, maximum: 10, description: "Retries after the first try." }),
    retry_backoff: z.enum(RETRY_BACKOFFS),
    rate_limit_max: z
      .number()
      .int()
      .nullable()
      .openapi({ minimum: 1, description: "Most tries per window; null: unlimited." }),
    rate_limit_window: z.enum(RATE_LIMIT_WINDOWS).nullable(),
    created_at: timestamp,
    updated_at: timestamp,
    deleted_at: nullableTimestamp,
  })
  .openapi("Destination", { example });
export type DestinationView = z.infer<typeof DestinationSchema>;

const serviceSecret = z.string().openapi({
  pattern: "^whsec_[A-Za-z0-9+/]+=*$",
  description: "Signs the deliveries (Standard Webhooks). Shown once.",
});

/** Spread rather than extended, so that the document holds one flat object. */
export const CreatedDestinationSchema = z
  .object({ ...DestinationSchema.shape, service_secret: serviceSecret })
  .openapi("CreatedDestination", { example: { ...example, service_secret: EXAMPLE_SECRET } });

export const DestinationSecretSchema = z
  .object({ id: id("destination"), service_secret: serviceSecret })
  .openapi("DestinationSecret", {
    example: { id: exampleId("destination"), service_secret: EXAMPLE_SECRET },
  });

const fields = {
  name: nameText,
  receiver_url: text(1, MAX_RECEIVER_URL).openapi({
    format: "uri",
    description:
      "https and public, without user information; private and link-local hosts are refused. Characters that a URI cannot hold are answered and dialled percent-encoded, and count so.",
  }),
  forward_original_signature: z.boolean().openapi({
    description:
      "Adds the provider's own signature headers, but for `webhook-id`, `webhook-timestamp` and `webhook-signature`: in a delivery these are the relay's. Default: false.",
  }),
  retry_max_attempts: z.number().min(0).max(10).int().openapi({
    description:
      "Retries after the first try. Default: 5. A receiver that fails everything is tried only now and then: a delivery that waits meanwhile ends `dead` once all its retries would have been over (a minute at least), with fewer tries, or none.",
  }),
  retry_backoff: z.enum(RETRY_BACKOFFS).openapi({
    description:
      "Delay before retry n: 30 s (RELAY_RETRY_BASE_MS) times 3^(n−1) for exponential, times n for linear, the same each time for fixed; at most 6 h, ±20 %, and not earlier than a `Retry-After` (at most 24 h) asks for. Default: exponential.",
  }),
  rate_limit_max: z.number().min(1).max(MAX_RATE_LIMIT).int().nullable().openapi({
    description: "Most tries per window, null: unlimited. Goes together with rate_limit_window.",
  }),
  rate_limit_window: z.enum(RATE_LIMIT_WINDOWS).nullable().openapi({
    description:
      "A changed limit counts what is sent from then on, and what earlier ones still count at that moment: what was sent before that under a shorter window, or none, it does not count.",
  }),
};

export const DestinationCreateSchema = z
  .strictObject(fields)
  .partial()
  .required({ name: true, receiver_url: true })
  .openapi("DestinationCreate", {
    example: { name: "Ledger", receiver_url: "https://hooks.example.com/ledger" },
  });

export const DestinationUpdateSchema = z
  .strictObject(fields)
  .partial()
  .openapi("DestinationUpdate", {
    example: { retry_max_attempts: 8, rate_limit_max: 100, rate_limit_window: "minute" },
  });
