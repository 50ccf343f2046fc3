import type { OpenAPIHono } from "@hono/zod-openapi";

export type OpenApiDocument = ReturnType<OpenAPIHono["getOpenAPI31Document"]>;
type Components = NonNullable<OpenApiDocument["components"]>;
export type SharedResponses = NonNullable<Components["responses"]>;
