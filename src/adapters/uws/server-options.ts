import type { Reception, RequestHead, SendAnswer } from "../../domain/incoming-request.ts";
import type { Logger } from "../../domain/logger.ts";

/** What the server needs of the ingest stage. `sendAnswer` is called exactly once unless the client goes away first. */
type IngestHandler = (
  head: RequestHead,
  sendAnswer: SendAnswer,
) => Reception | null | Promise<Reception | null>;

export interface IngestServerMetrics {
  /** HTTP that was malformed or late and answered 400 or 408, or a body in too many pieces; what uWebSockets.js itself refuses is not seen. */
  malformed(reason: string): void;
  /** Open connections, after each change. */
  connections(open: number): void;
  /** A connection was closed at once since too many were open. */
  connectionRefused(): void;
  /** The client went away before its answer. */
  aborted(): void;
}

export interface IngestServerOptions {
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** Lets several processes share one port; otherwise a second one is refused. */
  readonly sharePort: boolean;
  readonly handle: IngestHandler;
  readonly metrics: IngestServerMetrics;
  readonly logger: Logger;
  /** Most open connections; those above are closed at once. Default: no limit. */
  readonly maxConnections?: number;
  /** For the `timestamp` of answers that the server gives by itself. Default: the wall clock. */
  readonly now?: () => number;
}
