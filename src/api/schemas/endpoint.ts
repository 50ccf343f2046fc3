import { z } from "@hono/zod-openapi";
import { PROVIDERS, RESOURCE_STATUSES, VERIFICATION_METHODS } from "../../domain/enums.ts";
import { EXAMPLE_TIME, exampleId, id, nullableTimestamp, text, timestamp } from "./common.ts";
import { nameText } from "./project.ts";

export const EndpointSchema = z
  .object({
    id: id("endpoint"),
    project_id: id("project"),
    org_id: id("organization"),
    name: z.string(),
    provider: z.enum(PROVIDERS),
    verification_method: z.enum(VERIFICATION_METHODS),
    status: z.enum(RESOURCE_STATUSES),
    url: z
      .string()
      .openapi({ format: "uri", description: "Public ingest URL: give it to the provider." }),
    created_at: timestamp,
    updated_at: timestamp,
    deleted_at: nullableTimestamp,
  })
  .openapi("Endpoint", {
    example: {
      id: exampleId("endpoint"),
      project_id: exampleId("project"),
      org_id: exampleId("organization"),
      name: "Stripe live",
      provider: "stripe",
      verification_method: "hmac_sha256",
      status: "active",
      url: "http://localhost:8081/in/Zk3w0q9XcV7bN1mT5yRa2g",
      created_at: EXAMPLE_TIME,
      updated_at: EXAMPLE_TIME,
      deleted_at: null,
    },
  });
export type EndpointView = z.infer<typeof EndpointSchema>;

const VERIFICATION_CONFIG = `Per-method settings; unknown keys and wrong values are refused by name, and so are header names that HTTP itself uses (Connection, Content-Length, Host …). May be given later: until what is required is there, webhooks are refused, and their verification_error names it. Write-only.

| method | fields (default) |
| --- | --- |
| hmac_sha256, hmac_sha1 | header (required; a name or an ordered list), prefix of the signature (""), encoding hex, base64 or base64url (hex), secret_encoding utf8, hex, base64 or base64url (utf8), secret_prefix that is cut off the secret, header_format plain, key_value such as t=1,v1=ab, or list (plain), timestamp_key and signature_key for key_value, list_separator, signed_payload with {body} and also {timestamp}, {id}, {method}, {path} (as it was sent, without the query), each once ({body}), timestamp_header or timestamp_body_field (with {timestamp} in signed_payload of bodies up to 1 MiB), timestamp_unit s or ms (s), timestamp_optional (false), id_header, tolerance_seconds in both directions, 0 is off (300), allow_empty_body (true) |
| twilio_signature | header (X-Twilio-Signature), url when the one typed in at Twilio differs; the secret is the auth token, or that of the SharedKey which a Webhooks Rule signs with |
| bearer_token | header (Authorization), scheme (Bearer; "" for the bare token) |
| basic_auth | username; the secret is the password |
| jwt | header (Authorization), scheme (Bearer), algorithms (required), one of the secret, public_key, jwks, jwks_url (https and public, as a receiver_url), with a kid in each token where more than eight keys fit; secret_encoding, issuer, audience, clock_skew_seconds (60), max_age_seconds, body_hash_claim, body_hash_algorithm, body_hash_encoding, url_hash_claim |
| ip_allowlist | allowed_ips (required): addresses and CIDRs |
| none | none |`;

const fields = {
  name: nameText,
  provider: z.enum(PROVIDERS),
  secret: text(1, 16_384).openapi({
    description:
      "The verification secret, required for a known provider. For bearer_token it stands in a header as it is: Latin-1 (sent as UTF-8) without line breaks, and neither white space nor a character beyond ASCII at its ends. Write-only.",
  }),
  verification_method: z.enum(VERIFICATION_METHODS).openapi({
    description:
      "Leave unset for a known provider: its scheme and header are then set automatically. Required for `custom`, including `none` for unsigned requests.",
  }),
  // Stated explicitly: some generators turn an object without properties into one that allows none.
  verification_config: z
    .record(z.string(), z.unknown())
    .openapi({ type: "object", additionalProperties: true, description: VERIFICATION_CONFIG }),
};

const example = {
  name: "Stripe live",
  provider: "stripe",
  secret: "whsec_live_8dK2example",
} as const;

export const EndpointCreateSchema = z
  .strictObject(fields)
  .partial({ secret: true, verification_method: true, verification_config: true })
  .openapi("EndpointCreate", { example });

export const EndpointUpdateSchema = z
  .strictObject(fields)
  .partial()
  .openapi("EndpointUpdate", {
    example: { name: "Stripe test mode", secret: "whsec_test_3fP9example" },
  });

export const EndpointSecretSchema = z
  .object({
    id: id("endpoint"),
    secret: z.string().openapi({ description: "The new verification secret, shown once." }),
  })
  .openapi("EndpointSecret", {
    example: { id: exampleId("endpoint"), secret: "9c1f4e0ab27d44f7a1d0c35be86f2a10" },
  });

export const TestResultSchema = z
  .object({
    accepted: z.boolean().openapi({ description: "Whether the ingest accepted the test." }),
    status: z.number().int().openapi({ description: "HTTP status that the ingest answered." }),
    event_id: z.string().nullable().openapi({ description: "The recorded event, when accepted." }),
    error: z
      .string()
      .nullable()
      .openapi({ description: "Why it was not accepted, in the ingest's own words." }),
    url: z.string().openapi({ format: "uri", description: "The ingest URL the test was sent to." }),
  })
  .openapi("TestResult", {
    example: {
      accepted: true,
      status: 200,
      event_id: exampleId("event"),
      error: null,
      url: "http://localhost:8081/in/Zk3w0q9XcV7bN1mT5yRa2g",
    },
  });
