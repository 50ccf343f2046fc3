import { createSecureContext, type SecureContext } from "node:tls";
import type { Socket } from "node:net";
import { buildConnector, Pool } from "undici";
import { guardAnswers } from "./answer-parser.ts";
import { DeadAddresses } from "./dead-addresses.ts";
import { ConnectFailedError, isCertificateFault } from "./failure-reason.ts";
import { readBeforeFailing } from "./read-before-failing.ts";
import type { ParsedReceiver, ReceiverGuard } from "./receiver-guard.ts";

export interface PoolCacheOptions {
  readonly guard: ReceiverGuard;
  readonly maxConnectionsPerReceiver: number;
  /** While more are open, whether in use or not, a pool is closed as soon as nobody uses it. */
  readonly maxKeptConnections: number;
  readonly connectTimeoutMs: number;
  /** An unused connection is closed after this long, and so is the pool of an unused receiver. */
  readonly idleTimeoutMs: number;
  /** A connection in steady use is closed after this long, or up to twice as long, so that its name is looked up again. */
  readonly connectionAgeMs: number;
  readonly maxResponseHeaderBytes: number;
  /** Certificates trusted instead of the system's. */
  readonly ca: string | undefined;
}

/**
 * A bad certificate is not asked for again this soon: tries in between fail with the same reason. Each of its handshakes would
 * cost as much as twenty deliveries, at the expense of healthy receivers.
 */
const CERTIFICATE_FAULT_MS = 1_000;

/**
 * If a receiver has several addresses, each but the last is given up after this share of the whole time. Node's default of 250 ms
 * is too short to connect to another continent: a distant receiver whose last address is of a family without a route would never be
 * reached.
 */
const ADDRESS_SHARE = 0.1;
const MIN_ADDRESS_MS = 250;

/**
 * How long an unused connection stays open if the receiver does not say how long it keeps one (`Keep-Alive: timeout`; if it does, until
 * two seconds before that). Some close theirs after 1 or 2 s (gunicorn), and a request that is under way then fails although it was
 * never read. This also ends the connection that undici dials after an aborted try, which carries nothing.
 */
const UNTOLD_KEEP_ALIVE_MS = 800;

interface Entry {
  readonly pool: Pool;
  inUse: number;
  idleSinceMs: number;
}

/**
 * One bounded pool per receiver URL, not per origin: many receivers share a host (gateways, automation services), and one of
 * them that hangs must not take up the others' connections. The number of pools follows use: thousands of receivers come and go.
 */
export class PoolCache implements AsyncDisposable {
  readonly #options: PoolCacheOptions;
  readonly #entries = new Map<string, Entry>();
  #open = 0;
  readonly #deadAddresses = new DeadAddresses();
  readonly #sweeper: NodeJS.Timeout;
  /** One for all: a context for each connection costs more than the handshake. */
  readonly #secureContext: SecureContext;

  constructor(options: PoolCacheOptions) {
    this.#options = options;
    this.#secureContext = createSecureContext({ minVersion: "TLSv1.2", ca: options.ca });
    this.#sweeper = setInterval(() => this.#sweep(), options.idleTimeoutMs);
    this.#sweeper.unref();
  }

  /**
   * Runs `work` with the receiver's pool, which is not evicted meanwhile. Receivers are told apart by their URLs as they are written,
   * as they are by callers that count tries so as to make no more than there are connections.
   */
  async use<T>(
    text: string,
    { url, privateOnly }: ParsedReceiver,
    work: (pool: Pool) => Promise<T>,
  ): Promise<T> {
    let entry = this.#entries.get(text);
    if (entry === undefined) {
      entry = { pool: this.#makePool(url.origin, privateOnly), inUse: 0, idleSinceMs: 0 };
      this.#entries.set(text, entry);
    }
    entry.inUse += 1;
    try {
      return await work(entry.pool);
    } finally {
      entry.inUse -= 1;
      entry.idleSinceMs = performance.now();
      if (entry.inUse === 0 && this.#open > this.#options.maxKeptConnections)
        this.#close(text, entry);
    }
  }

  #sweep(): void {
    const idleBeforeMs = performance.now() - this.#options.idleTimeoutMs;
    for (const [text, entry] of this.#entries) {
      if (entry.inUse > 0 || entry.idleSinceMs > idleBeforeMs) continue;
      this.#close(text, entry);
    }
  }

  #close(text: string, { pool }: Entry): void {
    this.#entries.delete(text);
    void pool.destroy();
  }

  #makePool(origin: string, privateOnly: boolean): Pool {
    const { guard, connectTimeoutMs, idleTimeoutMs, connectionAgeMs } = this.#options;
    const connect = buildConnector({
      rejectUnauthorized: true, // Whatever NODE_TLS_REJECT_UNAUTHORIZED says.
      secureContext: this.#secureContext,
      lookup: guard.lookup(privateOnly, (addresses) => this.#deadAddresses.putLast(addresses)),
      timeout: connectTimeoutMs,
      autoSelectFamily: true,
      autoSelectFamilyAttemptTimeout: Math.max(
        MIN_ADDRESS_MS,
        Math.round(connectTimeoutMs * ADDRESS_SHARE),
      ),
    });
    let fault: { readonly error: Error; readonly untilMs: number } | null = null;
    return new Pool(origin, {
      connect: (options, callback) => {
        if (fault !== null && performance.now() < fault.untilMs) {
          const { error } = fault;
          setImmediate(() => callback(new ConnectFailedError(error), null));
          return;
        }
        const dialled: unknown = connect(options, (...[error, socket]) => {
          if (error === null) {
            this.#open += 1;
            socket.once("close", () => (this.#open -= 1));
            readBeforeFailing(socket);
            callback(null, socket);
            // Those that were made together, when the process started, are not to be made anew together: handshakes are dear.
            const ageMs = connectionAgeMs * (1 + Math.random());
            guardAnswers(socket, performance.now() + ageMs);
            return;
          }
          if (isCertificateFault(error))
            fault = { error, untilMs: performance.now() + CERTIFICATE_FAULT_MS };
          callback(new ConnectFailedError(error), null);
        });
        // undici's types hide that it returns the socket.
        this.#deadAddresses.watch(dialled as Socket);
      },
      connections: this.#options.maxConnectionsPerReceiver,
      pipelining: 1,
      // The overall deadline of each request covers both: `bodyTimeout` would begin anew with every chunk.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: Math.min(UNTOLD_KEEP_ALIVE_MS, idleTimeoutMs),
      keepAliveMaxTimeout: idleTimeoutMs,
      maxHeaderSize: this.#options.maxResponseHeaderBytes,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#sweeper);
    const pools = [...this.#entries.values()].map((entry) => entry.pool);
    this.#entries.clear();
    await Promise.all(pools.map((pool) => pool.destroy()));
  }
}
