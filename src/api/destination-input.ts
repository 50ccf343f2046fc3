import type { z } from "@hono/zod-openapi";
import type { DestinationInput } from "../management/management.ts";
import type { DestinationUpdateSchema } from "./schemas/destination.ts";
import { withoutUndefined } from "./without-undefined.ts";

/** Renames the body's fields to those of the use cases; what was left out stays out. */
export function toDestinationInput(
  body: z.output<typeof DestinationUpdateSchema>,
): Partial<DestinationInput> {
  return withoutUndefined({
    name: body.name,
    receiverUrl: body.receiver_url,
    forwardOriginalSignature: body.forward_original_signature,
    retryMaxAttempts: body.retry_max_attempts,
    retryBackoff: body.retry_backoff,
    rateLimitMax: body.rate_limit_max,
    rateLimitWindow: body.rate_limit_window,
  });
}
