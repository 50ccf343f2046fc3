import { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { Logger } from "../domain/logger.ts";
import type { Actor } from "../management/management.ts";
import { ApiFailure } from "./api-failure.ts";
import { makeBodyRoom } from "./body-room.ts";
import { makeBodyTurns } from "./body-turns.ts";
import { makeDocsPage } from "./docs-page.ts";
import { describeError, errorResponse } from "./envelope.ts";
import { makeLargeAnswers } from "./large-answers.ts";
import { documentOperation, finishDocument } from "./openapi.ts";
import type { OpenApiDocument } from "./openapi-document.ts";
import { OPERATIONS } from "./operations.ts";
import { runOperation } from "./run-operation.ts";
import type { LimitRequests, OperationPorts } from "./run-operation.ts";
import { makeWriteTurns } from "./write-turns.ts";

interface ApiMetrics {
  /** `operation` is an operation id of the document, or `none`. */
  answered(operation: string, status: number, seconds: number): void;
}

export interface ApiOptions extends Pick<OperationPorts, "management" | "queries" | "now"> {
  readonly logger: Logger;
  readonly newRequestId: () => string;
  /** Only differences mean anything: they time requests. */
  readonly monotonicMs: () => number;
  /** Version of the program, shown by `/docs`. */
  readonly version: string;
  readonly limitRequests?: LimitRequests;
  readonly metrics?: ApiMetrics;
}

interface RequestNotes {
  operation: string;
  actor: Actor | null;
}

type ApiEnv = { Variables: { requestId: string; notes: RequestNotes } };
export type Api = OpenAPIHono<ApiEnv>;

/** Makes the management API as a fetch handler. Errors are answered in the envelope, never thrown. */
export function makeApi(options: ApiOptions): Api {
  const api: Api = new OpenAPIHono<ApiEnv>();
  const ports: OperationPorts = {
    management: options.management,
    queries: options.queries,
    limitRequests: options.limitRequests ?? (() => null),
    writeInTurn: makeWriteTurns(),
    bodyTurn: makeBodyTurns(),
    bodyRoom: makeBodyRoom(),
    largeAnswers: makeLargeAnswers(),
    now: options.now,
  };
  api.use(async (context, next) => observe(options, context, next));
  for (const operation of OPERATIONS) {
    documentOperation(api.openAPIRegistry, operation, OPERATIONS);
    api.on(operation.method.toUpperCase(), toRoute(operation.path), (context) => {
      const notes = context.get("notes");
      notes.operation = operation.operationId;
      return runOperation(operation, ports, {
        request: context.req.raw,
        pathParameter: (name) => context.req.param(name) ?? "",
        onActor: (actor) => (notes.actor = actor),
      });
    });
  }
  serveDocument(api, finishDocument(api), options.version);
  refuseOtherMethods(api);
  api.notFound((context) =>
    answer(options, context, new ApiFailure("not_found", "No such path. See /docs.")),
  );
  api.onError((error, context) => answer(options, context, error));
  return api;
}

function serveDocument(api: Api, document: OpenApiDocument, version: string): void {
  const json = JSON.stringify(document);
  const page = makeDocsPage(document, version);
  api.get("/openapi.json", (context) =>
    context.body(json, 200, { "content-type": "application/json" }),
  );
  api.get("/docs", (context) => {
    context.header("content-security-policy", "default-src 'none'; style-src 'unsafe-inline'");
    return context.html(page);
  });
}

/** Makes known paths answer other methods with 405, and OPTIONS with what they allow. */
function refuseOtherMethods(api: Api): void {
  const methodsOf = new Map<string, Set<string>>([
    ["/openapi.json", new Set(["GET", "HEAD"])],
    ["/docs", new Set(["GET", "HEAD"])],
  ]);
  for (const { path, method } of OPERATIONS) {
    const methods = methodsOf.get(path) ?? new Set();
    methods.add(method.toUpperCase());
    if (method === "get") methods.add("HEAD");
    methodsOf.set(path, methods);
  }
  for (const [path, methods] of methodsOf) {
    const allow = [...methods, "OPTIONS"].join(", ");
    api.all(toRoute(path), (context) => {
      if (context.req.method === "OPTIONS") return context.body(null, 204, { allow });
      throw new ApiFailure("method_not_allowed", `This path allows ${allow}.`, {
        headers: { allow },
      });
    });
  }
}

async function observe(
  options: ApiOptions,
  context: Context<ApiEnv>,
  next: () => Promise<void>,
): Promise<void> {
  const requestId = options.newRequestId();
  const notes: RequestNotes = { operation: "none", actor: null };
  const startedMs = options.monotonicMs();
  context.set("requestId", requestId);
  context.set("notes", notes);
  await next();
  const { status, headers } = context.res;
  headers.set("x-request-id", requestId);
  headers.set("x-content-type-options", "nosniff");
  headers.set("cache-control", "no-store");
  const durationMs = options.monotonicMs() - startedMs;
  options.metrics?.answered(notes.operation, status, durationMs / 1_000);
  options.logger.info(
    {
      requestId,
      operation: notes.operation,
      method: context.req.method,
      status,
      durationMs: Math.round(durationMs),
      orgId: notes.actor?.orgId,
      keyId: notes.actor?.keyId,
    },
    "api.answered",
  );
}

/**
 * The status that nginx logs for a client that closed the connection before it was answered, which ends operations that only read.
 */
const CLIENT_GONE = 499;

function answer(options: ApiOptions, context: Context<ApiEnv>, error: unknown): Response {
  const requestId = context.get("requestId");
  const described = describeError(error, requestId);
  if (described.code === "unavailable" && context.req.raw.signal.aborted)
    return new Response(null, { status: CLIENT_GONE });
  if (described.status >= 500)
    // What is unavailable, or only busy, is asked for again; a fault of the relay's own needs somebody to look.
    options.logger[described.status === 500 ? "error" : "warn"](
      { requestId, operation: context.get("notes").operation, code: described.code, err: error },
      "api.failed",
    );
  return errorResponse(described, options.now());
}

function toRoute(path: string): string {
  return path.replaceAll(/\{(\w+)\}/g, ":$1");
}
