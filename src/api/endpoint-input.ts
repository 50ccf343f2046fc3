import type { z } from "@hono/zod-openapi";
import type { EndpointInput } from "../management/management.ts";
import type { EndpointUpdateSchema } from "./schemas/endpoint.ts";

/** Renames the body's fields to those of the use cases; what was left out stays out. */
export function toEndpointInput(
  body: z.output<typeof EndpointUpdateSchema>,
): Partial<EndpointInput> {
  return {
    ...(body.name === undefined ? {} : { name: body.name }),
    ...(body.provider === undefined ? {} : { provider: body.provider }),
    ...(body.secret === undefined ? {} : { secret: body.secret }),
    ...(body.verification_method === undefined
      ? {}
      : { verificationMethod: body.verification_method }),
    ...(body.verification_config === undefined
      ? {}
      : { verificationConfig: body.verification_config }),
  };
}
