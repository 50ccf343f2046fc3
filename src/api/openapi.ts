import { z } from "@hono/zod-openapi";
import type { OpenAPIHono, RouteConfig } from "@hono/zod-openapi";
import type { Env } from "hono";
import type { ApiErrorCode } from "./api-failure.ts";
import { STATUS_OF_CODE } from "./envelope.ts";
import { ERROR_CATALOGUE } from "./error-catalogue.ts";
import { shareErrorResponses } from "./share-error-responses.ts";
import type { OpenApiDocument } from "./openapi-document.ts";
import { REQUESTS_PER_SECOND } from "./limit-requests.ts";
import { linksOf } from "./openapi-links.ts";
import type { AnyOperation } from "./operation.ts";
import {
  EXAMPLE_TIME,
  ErrorSchema,
  PaginationSchema,
  exampleId,
  noBody,
  timestamp,
} from "./schemas/common.ts";
import { notFoundMessage } from "../management/not-found.ts";

/** Version of the interface, not of the program: changes with the specification. */
const API_VERSION = "0.1.0";

type Registry = OpenAPIHono["openAPIRegistry"];
type ResponseConfig = RouteConfig["responses"][string];

type HeaderObject = {
  readonly description: string;
  readonly required: boolean;
  readonly schema: { readonly type: "string"; readonly pattern?: string };
};

const REQUEST_ID: HeaderObject = {
  description: "Names this request in the service's log.",
  required: true,
  schema: { type: "string" },
};
const RETRY_AFTER: HeaderObject = {
  description: "Seconds to wait.",
  required: true,
  schema: { type: "string", pattern: "^[1-9]\\d*$" },
};
const CHALLENGE: HeaderObject = {
  description: "`Bearer`",
  required: true,
  schema: { type: "string" },
};

/** Not 408 and 431: these are answered before it is known which operation is asked for, as 405 is. */
const EVERYWHERE: readonly ApiErrorCode[] = [
  "validation_error",
  "unauthorized",
  "forbidden",
  "not_acceptable",
  "rate_limited",
  "internal_error",
  "unavailable",
];

/** Returns all error codes of an operation: its own and those of the layers before it. */
function errorCodesOf(operation: AnyOperation): ApiErrorCode[] {
  const codes = new Set<ApiErrorCode>(EVERYWHERE);
  if (Object.keys(operation.ids).length > 0) codes.add("not_found");
  if (operation.method !== "get") codes.add("payload_too_large");
  if (operation.body !== noBody) codes.add("unsupported_media_type");
  for (const code of operation.errors) codes.add(code);
  return [...codes];
}

/** @param all the operations that its answers may link to */
export function documentOperation(
  registry: Registry,
  operation: AnyOperation,
  all: readonly AnyOperation[],
): void {
  const { operationId, method, path, tag, summary, description, success } = operation;
  const pathIds = Object.entries(operation.ids).map(([name, kind]) => [
    name,
    z.string().openapi({ minLength: 1, example: exampleId(kind) }),
  ]);
  registry.registerPath({
    operationId,
    method,
    path,
    summary,
    description: `${description}\n\nScope: ${operation.scope}.`,
    tags: [tag],
    security: [{ apiKey: [] }],
    request: {
      ...(pathIds.length === 0 ? {} : { params: z.object(Object.fromEntries(pathIds)) }),
      ...(operation.query instanceof z.ZodObject ? { query: operation.query } : {}),
      ...(operation.body === noBody
        ? {}
        : {
            body: { required: true, content: { "application/json": { schema: operation.body } } },
          }),
    },
    responses: {
      [success.status]: successResponse(success, linksOf(operation, all)),
      ...errorResponses(operation),
    },
  });
}

function successResponse(
  success: AnyOperation["success"],
  links: ReturnType<typeof linksOf>,
): ResponseConfig {
  const { description, schema, paginated } = success;
  const headers = { "x-request-id": REQUEST_ID };
  if (schema === null) return { description, headers };
  const envelope = z.object({
    data: schema,
    ...(paginated === true ? { pagination: PaginationSchema } : {}),
    timestamp,
  });
  return {
    description,
    headers,
    content: { "application/json": { schema: envelope } },
    ...(links === null ? {} : { links }),
  };
}

function errorResponses(operation: AnyOperation): Record<string, ResponseConfig> {
  const codesOfStatus = new Map<number, ApiErrorCode[]>();
  for (const code of errorCodesOf(operation)) {
    const status = STATUS_OF_CODE[code];
    codesOfStatus.set(status, [...(codesOfStatus.get(status) ?? []), code]);
  }
  return Object.fromEntries(
    [...codesOfStatus]
      .sort(([a], [b]) => a - b)
      .map(([status, codes]) => [status, errorResponse(codes, operation)]),
  );
}

function errorResponse(codes: readonly ApiErrorCode[], operation: AnyOperation): ResponseConfig {
  const examples = codes.map((code) => [
    code,
    {
      summary: ERROR_CATALOGUE[code].meaning,
      value: {
        error: { code, message: exampleMessage(code, operation) },
        timestamp: EXAMPLE_TIME,
      },
    },
  ]);
  return {
    headers: errorHeaders(codes),
    description: codes.map((code) => `\`${code}\`: ${ERROR_CATALOGUE[code].meaning}`).join(" "),
    content: {
      "application/json": { schema: ErrorSchema, examples: Object.fromEntries(examples) },
    },
  };
}

function errorHeaders(codes: readonly ApiErrorCode[]): Record<string, HeaderObject> {
  const headers: Record<string, HeaderObject> = { "x-request-id": REQUEST_ID };
  if (codes.includes("unauthorized")) headers["www-authenticate"] = CHALLENGE;
  if (codes.includes("rate_limited") || codes.includes("unavailable"))
    headers["retry-after"] = RETRY_AFTER;
  return headers;
}

function exampleMessage(code: ApiErrorCode, operation: AnyOperation): string {
  if (code !== "not_found") return ERROR_CATALOGUE[code].example;
  const kind = Object.values(operation.ids).at(-1) ?? "endpoint";
  return notFoundMessage(kind);
}

const DESCRIPTION = `Manage projects, endpoints, destinations, events and delivery attempts of the webhook relay.

Ids are a prefix and a ULID. Timestamps are RFC 3339 in UTC with milliseconds. Lists are newest first, ties broken by id.
Unknown body fields and unknown query parameters are 400. Paths answer HEAD like GET, OPTIONS with 204 and \`Allow\`, and other methods with 405 \`method_not_allowed\` and \`Allow\`.
A request that does not arrive in time is 408 \`request_timeout\`, and one whose URL and headers are too large 431 \`headers_too_large\`.
Changes to endpoints and destinations take effect within 60 seconds, normally within one.
An API key may make ${REQUESTS_PER_SECOND.toLocaleString("en")} requests a second to one process, as many at once; beyond that it is answered 429 with \`Retry-After\`.`;

/** Returns the finished document. Every operation must have been documented before. */
export function finishDocument<E extends Env>(api: OpenAPIHono<E>): OpenApiDocument {
  api.openAPIRegistry.registerComponent("securitySchemes", "apiKey", {
    type: "http",
    scheme: "bearer",
    description:
      "An API key (`rk_…`), made by `relay keys create`. It identifies the organization.",
  });
  const document = api.getOpenAPI31Document({
    openapi: "3.1.0",
    info: { title: "Webhook Relay", version: API_VERSION, description: DESCRIPTION },
    servers: [{ url: "/" }],
    security: [{ apiKey: [] }],
    tags: [
      {
        name: "Projects",
        description: "An organization owns projects; a project holds endpoints.",
      },
      { name: "Endpoints", description: "Public ingest addresses, each for one provider." },
      {
        name: "Destinations",
        description:
          "Receiver URLs that accepted events are forwarded to. Only a 2xx answer is success; after a 410 the destination is disabled.",
      },
      { name: "Events", description: "Received webhooks, their delivery attempts, and replays." },
    ],
  });
  shareErrorResponses(document);
  return document;
}
