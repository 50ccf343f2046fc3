import { connect } from "node:net";
import type { EndpointConfig } from "../../src/domain/endpoint.ts";
import type { EventRecord } from "../../src/domain/event.ts";
import { makeIdGenerator } from "../../src/domain/ids.ts";
import type { NewRecord, Position } from "../../src/domain/log.ts";
import type { Logger } from "../../src/domain/logger.ts";
import { startIngestServer } from "../../src/adapters/uws/server.ts";
import type { IngestServer } from "../../src/adapters/uws/server.ts";
import type { IngestServerOptions } from "../../src/adapters/uws/server-options.ts";
import { makeIngest } from "../../src/pipeline/ingest/ingest.ts";
import type { Ingest } from "../../src/pipeline/ingest/ingest.ts";
import type { IngestMetrics, IngestOptions, IngestPorts } from "../../src/pipeline/ingest/ports.ts";
import { INGEST_DEFAULTS } from "../../src/pipeline/ingest/ports.ts";
import { decodeEvent } from "../../src/pipeline/log/event-codec.ts";

export const TOKEN = "tok_0123456789abcdefghijk";

export function endpointConfig(overrides: Partial<EndpointConfig> = {}): EndpointConfig {
  return {
    id: "ep_01HZZZZZZZZZZZZZZZZZZZZZZZ",
    orgId: "org_01HZZZZZZZZZZZZZZZZZZZZZZZ",
    provider: "custom",
    method: "none",
    methodIsExplicit: true,
    secret: null,
    config: {},
    status: "active",
    ...overrides,
  };
}

interface LoggedLine {
  readonly level: string;
  readonly fields: object;
  readonly message: string;
}

function recordingLogger(lines: LoggedLine[] = []): Logger & { lines: LoggedLine[] } {
  const at = (level: string) => (fields: object, message: string) => {
    lines.push({ level, fields, message });
  };
  return {
    lines,
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: () => recordingLogger(lines),
  };
}

/** An in-memory log whose appends can be held back and made to fail. */
class FakeLog {
  readonly records: NewRecord[] = [];
  readonly appends: number[] = [];
  failWith: Error | null = null;
  #gate: Promise<void> | null = null;
  #open: () => void = () => {};

  hold(): void {
    this.#gate = new Promise((resolve) => {
      this.#open = resolve;
    });
  }

  letGo(): void {
    this.#gate = null;
    this.#open();
  }

  append = async (records: readonly NewRecord[]): Promise<readonly Position[]> => {
    this.appends.push(records.length);
    if (this.#gate !== null) await this.#gate;
    if (this.failWith !== null) throw this.failWith;
    const first = this.records.length;
    // A log keeps no view of what it was given.
    for (const record of records)
      this.records.push({ ...record, value: Buffer.from(record.value) });
    return records.map((_, index) => ({ partition: 0, offset: first + index }));
  };

  get events(): EventRecord[] {
    return this.records.map((record) => decodeEvent(record.value));
  }
}

class CountingMetrics implements IngestMetrics {
  readonly outcomes: string[] = [];
  readonly causes: string[] = [];
  readonly appends: (string | null)[] = [];
  answered(outcome: string): void {
    this.outcomes.push(outcome);
  }
  refused(cause: string): void {
    this.causes.push(cause);
  }
  appended(_seconds: number, _records: number, failure: string | null): void {
    this.appends.push(failure);
  }
}

export const realClock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  schedule(delayMs: number, callback: () => void) {
    const timer = setTimeout(callback, delayMs);
    timer.unref();
    return () => clearTimeout(timer);
  },
};

export interface IngestRig {
  readonly ingest: Ingest;
  readonly log: FakeLog;
  readonly metrics: CountingMetrics;
  readonly endpoints: Map<string, EndpointConfig>;
  readonly logged: LoggedLine[];
}

export function ingestRig(
  overrides: { ports?: Partial<IngestPorts>; options?: Partial<IngestOptions> } = {},
): IngestRig {
  const log = new FakeLog();
  const metrics = new CountingMetrics();
  const logger = recordingLogger();
  const endpoints = new Map([[TOKEN, endpointConfig()]]);
  const newId = makeIdGenerator();
  const ingest = makeIngest(
    {
      endpointByToken(token) {
        const value = endpoints.get(token);
        return value === undefined ? { kind: "missing" } : { kind: "found", value };
      },
      verify: () => ({ valid: true, reason: "ok", message: null }),
      isInline: () => false,
      append: log.append,
      newEventId: (timeMs) => newId("event", timeMs),
      clock: realClock,
      defer: (callback) => setImmediate(callback),
      metrics,
      logger,
      ...overrides.ports,
    },
    {
      publicBaseUrl: "https://relay.example",
      maxPayloadBytes: 10 * 1024 * 1024,
      rateLimitPerSecond: 0,
      trustedProxies: [],
      ...INGEST_DEFAULTS,
      ...overrides.options,
    },
  );
  return { ingest, log, metrics, endpoints, logged: logger.lines };
}

class CountingServerMetrics {
  readonly malformedReasons: string[] = [];
  open = 0;
  refusedConnections = 0;
  abortedRequests = 0;
  malformed(reason: string): void {
    this.malformedReasons.push(reason);
  }
  connections(open: number): void {
    this.open = open;
  }
  connectionRefused(): void {
    this.refusedConnections += 1;
  }
  aborted(): void {
    this.abortedRequests += 1;
  }
}

export interface ServerRig extends IngestRig, AsyncDisposable {
  readonly server: IngestServer;
  readonly serverMetrics: CountingServerMetrics;
  readonly url: string;
}

export async function serverRig(
  overrides: Parameters<typeof ingestRig>[0] & { server?: Partial<IngestServerOptions> } = {},
): Promise<ServerRig> {
  const rig = ingestRig(overrides);
  const serverMetrics = new CountingServerMetrics();
  const server = await startIngestServer({
    host: "127.0.0.1",
    port: 0,
    sharePort: false,
    handle: rig.ingest.handle,
    metrics: serverMetrics,
    logger: recordingLogger(rig.logged),
    ...overrides.server,
  });
  return {
    ...rig,
    server,
    serverMetrics,
    url: `http://127.0.0.1:${server.port}/in/${TOKEN}`,
    [Symbol.asyncDispose]: () => server.stop(0),
  };
}

export interface RawAnswer {
  readonly text: string;
  readonly status: number;
  readonly closed: boolean;
  readonly afterMs: number;
}

/**
 * Writes raw bytes to a port, piece by piece, and reads until the server closes, `until` has been true for `lingerMs`, or
 * the deadline passes.
 */
export function exchangeRaw(
  port: number,
  pieces: Iterable<string | Buffer>,
  options: {
    deadlineMs?: number;
    pauseMs?: number;
    until?: (text: string) => boolean;
    lingerMs?: number;
  } = {},
): Promise<RawAnswer> {
  const startedAt = performance.now();
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true });
    let text = "";
    let settled = false;
    const finish = (closed: boolean): void => {
      if (settled) return;
      settled = true;
      clearTimeout(timer);
      clearTimeout(lingering);
      socket.destroy();
      resolve({ text, status: statusOf(text), closed, afterMs: performance.now() - startedAt });
    };
    const timer = setTimeout(() => finish(false), options.deadlineMs ?? 5_000);
    let lingering: NodeJS.Timeout | undefined;
    socket.on("data", (data) => {
      text += data.toString("latin1");
      if (options.until?.(text))
        lingering ??= setTimeout(() => finish(false), options.lingerMs ?? 0);
    });
    socket.on("error", () => finish(true));
    socket.on("close", () => finish(true));
    void (async () => {
      for (const piece of pieces) {
        if (settled) return;
        socket.write(piece);
        if (options.pauseMs) await new Promise((wake) => setTimeout(wake, options.pauseMs));
      }
    })();
  });
}

/** Yields pieces for `exchangeRaw` that never end: a byte at a time after `head`. */
export function* dripBehind(head: string): Iterable<string> {
  yield head;
  for (;;) yield "x";
}

/** Returns the status of the first final answer in `text`; 0 if there is none. */
export function statusOf(text: string): number {
  return Number(/^HTTP\/1\.1 (?!100)(\d{3})/m.exec(text)?.[1] ?? 0);
}

/** Tells whether `text` holds a whole final answer with a Content-Length body. */
export function isWholeAnswer(text: string): boolean {
  const head = /HTTP\/1\.1 (?!100)\d{3}[\s\S]*?\r\n\r\n/.exec(text);
  if (head === null) return false;
  const length = Number(/content-length: (\d+)/i.exec(head[0])?.[1] ?? 0);
  return text.length >= head.index + head[0].length + length;
}
