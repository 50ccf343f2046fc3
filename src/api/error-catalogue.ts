import type { ApiErrorCode } from "./api-failure.ts";

/** Every error code that the API returns: its meaning, and an example of its message. */
export const ERROR_CATALOGUE: Readonly<
  Record<ApiErrorCode, { readonly meaning: string; readonly example: string }>
> = {
  validation_error: {
    meaning: "A field or query parameter is wrong; the message names it.",
    example: "name: must not be empty.",
  },
  endpoint_not_testable: {
    meaning:
      "The endpoint's scheme cannot be tested (ip_allowlist, jwt, twilio_signature), or no header can carry its secret or settings.",
    example:
      "jwt endpoints cannot be tested: only the holder of the key can make a token; send a real event from the provider instead.",
  },
  rotation_not_supported: {
    meaning: "The verification method does not support rotation.",
    example:
      "The secret of this endpoint cannot be rotated here: ip_allowlist has no secret; update verification_config.allowed_ips",
  },
  unauthorized: {
    meaning: "The API key is missing, unknown or revoked.",
    example: "The API key is unknown or revoked.",
  },
  forbidden: {
    meaning: "The API key lacks the scope that this operation needs.",
    example: 'This API key lacks the scope "write".',
  },
  not_found: {
    meaning: "The id is unknown, deleted, or another organization's.",
    example: "Endpoint not found",
  },
  method_not_allowed: {
    meaning: "The path has no such method; `Allow` lists those it has.",
    example: "This path allows GET, HEAD, POST, OPTIONS.",
  },
  not_acceptable: {
    meaning: "The Accept header refuses application/json.",
    example: "Accept: this service answers application/json only.",
  },
  request_timeout: {
    meaning: "The request did not arrive in time: the head within 10 s, all of it within 30 s.",
    example: "The request did not arrive in time.",
  },
  slug_taken: {
    meaning: "A project with this slug already exists.",
    example: 'A project with the slug "acme" already exists',
  },
  project_not_empty: {
    meaning: "The project still has endpoints.",
    example: "Project still has 2 endpoints: delete them first",
  },
  endpoint_paused: {
    meaning: "The endpoint is paused, so the test would be rejected.",
    example: "The endpoint is paused, so the test would be rejected: resume it first",
  },
  payload_not_stored: {
    meaning: "The event was refused before its payload was stored, so there is nothing to replay.",
    example: "The payload of this event was refused and not stored, so it cannot be replayed",
  },
  payload_too_large: {
    meaning: "The body is larger than 1 MiB.",
    example: "The body is larger than 1048576 bytes.",
  },
  unsupported_media_type: {
    meaning: "The body is not application/json in UTF-8, or is compressed.",
    example: "Content-Type: must be application/json in UTF-8.",
  },
  headers_too_large: {
    meaning: "The URL and the headers are larger than 16 KiB.",
    example: "The URL and the headers are larger than 16 KiB.",
  },
  rate_limited: {
    meaning: "Too many requests; `Retry-After` says when to try again.",
    example: "Too many requests with this API key.",
  },
  internal_error: {
    meaning: "A fault of the service. The message holds the request id that its log has, too.",
    example:
      "Internal error. The service's log has the cause under request id 9fa7ab68-0761-4c54-b0f5-3f1b6f5f2f9e.",
  },
  unavailable: {
    meaning: "A store is down; `Retry-After` says when to try again.",
    example: "The event store does not answer; try again shortly",
  },
  ingest_unreachable: {
    meaning: "The ingest service could not be reached.",
    example:
      "The ingest service could not be reached at http://localhost:8081/in/Zk3w0q9XcV7bN1mT5yRa2g: the request failed (ECONNREFUSED)",
  },
};
