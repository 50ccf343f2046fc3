import type { z } from "@hono/zod-openapi";
import type { DestinationInput } from "../management/management.ts";
import type { DestinationUpdateSchema } from "./schemas/destination.ts";

/** Renames the body's fields to those of the use cases; what was left out stays out. */
export function toDestinationInput(
  body: z.output<typeof DestinationUpdateSchema>,
): Partial<DestinationInput> {
  return {
    ...(body.name === undefined ? {} : { name: body.name }),
    ...(body.receiver_url === undefined ? {} : { receiverUrl: body.receiver_url }),
    ...(body.forward_original_signature === undefined
      ? {}
      : { forwardOriginalSignature: body.forward_original_signature }),
    ...(body.retry_max_attempts === undefined ? {} : { retryMaxAttempts: body.retry_max_attempts }),
    ...(body.retry_backoff === undefined ? {} : { retryBackoff: body.retry_backoff }),
    ...(body.rate_limit_max === undefined ? {} : { rateLimitMax: body.rate_limit_max }),
    ...(body.rate_limit_window === undefined ? {} : { rateLimitWindow: body.rate_limit_window }),
  };
}
