import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { listen } from "../api/listen.ts";

interface OpsPorts {
  /** Text in Prometheus' exposition format, with its content type. */
  readonly metrics: () => Promise<{ readonly contentType: string; readonly text: string }>;
  readonly readiness: () => Promise<{ readonly ready: boolean; readonly parts: readonly object[] }>;
}

/** Cuts off a connection that sends no request or drips one: probes and scrapes send theirs at once. */
const HEADERS_TIMEOUT_MS = 5_000;
const REQUEST_TIMEOUT_MS = 10_000;
const CHECK_EVERY_MS = 1_000;

export interface OpsOptions extends OpsPorts {
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  /** Most open connections; further ones are closed at once. Default: no limit. */
  readonly maxConnections?: number;
}

export interface OpsServer extends AsyncDisposable {
  readonly port: number;
}

/**
 * Serves `/metrics`, `/healthz` (the process answers) and `/readyz` (every part has started and none is being
 * restarted; otherwise 503 with the list. Stores that go down later show in the metrics).
 * @throws {UsageError} that names the variable to change when the port cannot be had
 */
export async function startOpsServer(options: OpsOptions): Promise<OpsServer> {
  const timeouts = {
    headersTimeout: HEADERS_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    connectionsCheckingInterval: CHECK_EVERY_MS,
  };
  const server = createServer(timeouts, (request, response) => {
    answer(options, request.url ?? "/", response).catch((error: unknown) => {
      if (!response.headersSent) response.writeHead(500, { "content-type": "text/plain" });
      response.end(error instanceof Error ? error.message : "failed");
    });
  });
  if (options.maxConnections !== undefined) server.maxConnections = options.maxConnections;
  await listen(server, options, "RELAY_OPS_PORT");
  return {
    port: (server.address() as AddressInfo).port,
    [Symbol.asyncDispose]: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function answer(ports: OpsPorts, url: string, response: ServerResponse): Promise<void> {
  const path = url.split("?", 1)[0];
  if (path === "/metrics") {
    const { contentType, text } = await ports.metrics();
    response.writeHead(200, { "content-type": contentType }).end(text);
  } else if (path === "/healthz") {
    response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ status: "ok" }));
  } else if (path === "/readyz") {
    const { ready, parts } = await ports.readiness();
    response
      .writeHead(ready ? 200 : 503, { "content-type": "application/json" })
      .end(JSON.stringify({ status: ready ? "ready" : "not ready", parts }, null, 2));
  } else {
    response
      .writeHead(404, { "content-type": "text/plain" })
      .end("try /metrics, /healthz or /readyz\n");
  }
}
