import type { z } from "@hono/zod-openapi";
import type { EndpointInput } from "../management/management.ts";
import type { EndpointUpdateSchema } from "./schemas/endpoint.ts";
import { withoutUndefined } from "./without-undefined.ts";

/** Renames the body's fields to those of the use cases; what was left out stays out. */
export function toEndpointInput(
  body: z.output<typeof EndpointUpdateSchema>,
): Partial<EndpointInput> {
  return withoutUndefined({
    name: body.name,
    provider: body.provider,
    secret: body.secret,
    verificationMethod: body.verification_method,
    verificationConfig: body.verification_config,
  });
}
