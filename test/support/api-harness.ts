import { makeApi } from "../../src/api/api.ts";
import type { ApiOptions } from "../../src/api/api.ts";
import { startApiServer } from "../../src/api/start-api-server.ts";
import { RelayError } from "../../src/domain/errors.ts";
import type { Logger } from "../../src/domain/logger.ts";
import type { Actor } from "../../src/management/management.ts";
import { ApiFake } from "./api-fake.ts";
import { ResponseCheck } from "./api-response-check.ts";
import type { OpenApiJson } from "./api-response-check.ts";

export interface ApiAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The parsed body; undefined when empty or not JSON. */
  readonly json: any;
}

export interface ApiRequest {
  readonly method: string;
  readonly path: string;
  readonly key?: string | null;
  readonly json?: unknown;
  /** Sent as is, instead of `json`. */
  readonly body?: string | Uint8Array;
  readonly headers?: Record<string, string>;
}

export type FaultKind = "unavailable" | "internal" | "rate_limited" | "ingest_unreachable";

/**
 * What the conformance suite needs from a started service. The fake's harness is below; a composition with real
 * stores provides the same, with its own way to make keys, events and faults.
 */
export interface ApiHarness extends AsyncDisposable {
  readonly baseUrl: string;
  /** Stands in for `https://hooks.example.com` where deliveries are really made. */
  readonly receiverBase?: string;
  /** Creates a key, for a fresh organization unless one is given. */
  newKey(scopes?: Actor["scopes"], orgId?: string): Promise<{ key: string; orgId: string }>;
  /** Makes an event at the endpoint, as if a webhook had come in. */
  newEvent(
    endpointId: string,
    options?: { bodyStored?: boolean; body?: Uint8Array },
  ): Promise<string>;
  /** The faults available here; rows that need another one are skipped. */
  readonly faults: ReadonlySet<FaultKind>;
  /** Until disposed of, takes stores down (`unavailable`) or breaks them (`internal`), limits requests, or makes ingest unreachable. */
  fault(kind: FaultKind): Disposable;
}

export interface FakeHarness extends ApiHarness {
  readonly fake: ApiFake;
  readonly logs: { readonly level: string; readonly message: string; readonly fields: any }[];
}

export async function startFakeHarness(over: Partial<ApiOptions> = {}): Promise<FakeHarness> {
  const fake = new ApiFake();
  const logs: { level: string; message: string; fields: any }[] = [];
  let limited = false;
  let requests = 0;
  const app = makeApi({
    management: fake.management,
    queries: fake.queries,
    logger: makeLogger(logs),
    newRequestId: () => `req_${(requests += 1)}`,
    now: () => Date.UTC(2026, 10, 20, 9, 30),
    monotonicMs: () => 0,
    version: "0.1.0",
    limitRequests: () => (limited ? 7 : null),
    ...over,
  });
  const server = await startApiServer({ app, host: "127.0.0.1", port: 0 });
  return {
    fake,
    logs,
    baseUrl: `http://127.0.0.1:${server.port}`,
    newKey: async (scopes, orgId = fake.newId("organization", fake.tick())) => ({
      key: fake.addKey(orgId, scopes),
      orgId,
    }),
    newEvent: async (endpointId, options) =>
      fake.addEvent(fake.endpoints.get(endpointId)!, options ?? {}).id,
    faults: new Set(["unavailable", "internal", "rate_limited", "ingest_unreachable"] as const),
    fault: (kind) => {
      const set = (on: boolean): void => {
        if (kind === "rate_limited") limited = on;
        else if (kind === "ingest_unreachable") fake.ingestReachable = !on;
        else fake.failure = on ? makeFailure(kind) : null;
      };
      set(true);
      return { [Symbol.dispose]: () => set(false) };
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

/** Makes a client that checks each answer against the service's own document. */
export async function makeTestClient(
  harness: Pick<ApiHarness, "baseUrl" | "receiverBase">,
  defaultKey: string | null,
) {
  const document = (await (await fetch(`${harness.baseUrl}/openapi.json`)).json()) as OpenApiJson;
  const check = new ResponseCheck(document);
  async function send(request: ApiRequest): Promise<ApiAnswer> {
    const key = request.key === undefined ? defaultKey : request.key;
    const body = request.body ?? withReceiver(JSON.stringify(request.json), harness.receiverBase);
    const response = await fetch(harness.baseUrl + request.path, {
      method: request.method,
      headers: {
        ...(key === null ? {} : { authorization: `Bearer ${key}` }),
        ...(request.json === undefined ? {} : { "content-type": "application/json" }),
        ...request.headers,
      },
      ...(body === undefined ? {} : { body: body as any }),
    });
    const text = await response.text();
    const { status, headers } = response;
    check.check({ method: request.method, target: request.path, status, headers, text });
    const isJson = headers.get("content-type")?.startsWith("application/json") === true;
    return { status, headers, text, json: isJson && text !== "" ? JSON.parse(text) : undefined };
  }
  return { send, check, document };
}
export type TestClient = Awaited<ReturnType<typeof makeTestClient>>;

function withReceiver(json: string | undefined, base: string | undefined): string | undefined {
  return base === undefined ? json : json?.replaceAll("https://hooks.example.com", base);
}

function makeFailure(kind: "unavailable" | "internal"): Error {
  return kind === "unavailable"
    ? new RelayError("unavailable", "The configuration store cannot be reached. Try again shortly.")
    : new Error("connection string postgres://relay:hunter2@db is wrong");
}

function makeLogger(lines: { level: string; message: string; fields: any }[]): Logger {
  const write = (level: string) => (fields: object, message: string) => {
    lines.push({ level, message, fields });
  };
  const logger: Logger = {
    debug: write("debug"),
    info: write("info"),
    warn: write("warn"),
    error: write("error"),
    child: () => logger,
  };
  return logger;
}
