import { buildConnector, Pool } from "undici";
import { ConnectFailedError } from "./failure-reason.ts";
import type { ReceiverGuard } from "./receiver-guard.ts";

export interface PoolCacheOptions {
  readonly guard: ReceiverGuard;
  readonly maxConnectionsPerReceiver: number;
  readonly connectTimeoutMs: number;
  /** An unused connection is closed after this long, and so is the pool of an unused receiver. */
  readonly idleTimeoutMs: number;
  readonly maxResponseHeaderBytes: number;
  /** Certificates trusted instead of the system's. */
  readonly ca?: string;
}

interface Entry {
  readonly pool: Pool;
  inUse: number;
  idleSinceMs: number;
}

/**
 * One bounded pool per receiver URL, not per origin: many receivers share a host (gateways, automation services), and one of
 * them that hangs must not take the others' connections. The number of pools follows use: thousands of receivers come and go.
 */
export class PoolCache implements AsyncDisposable {
  readonly #options: PoolCacheOptions;
  readonly #entries = new Map<string, Entry>();
  readonly #sweeper: NodeJS.Timeout;

  constructor(options: PoolCacheOptions) {
    this.#options = options;
    this.#sweeper = setInterval(() => this.#sweep(), options.idleTimeoutMs);
    this.#sweeper.unref();
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Runs `work` with the receiver's pool, which is not evicted meanwhile. */
  async use<T>(url: URL, privateOnly: boolean, work: (pool: Pool) => Promise<T>): Promise<T> {
    const { href } = url;
    let entry = this.#entries.get(href);
    if (entry === undefined) {
      entry = { pool: this.#makePool(url.origin, privateOnly), inUse: 0, idleSinceMs: 0 };
      this.#entries.set(href, entry);
    }
    entry.inUse += 1;
    try {
      return await work(entry.pool);
    } finally {
      entry.inUse -= 1;
      entry.idleSinceMs = performance.now();
    }
  }

  #sweep(): void {
    const idleBeforeMs = performance.now() - this.#options.idleTimeoutMs;
    for (const [href, entry] of this.#entries) {
      if (entry.inUse > 0 || entry.idleSinceMs > idleBeforeMs) continue;
      this.#entries.delete(href);
      void entry.pool.destroy();
    }
  }

  #makePool(origin: string, privateOnly: boolean): Pool {
    const { guard, connectTimeoutMs, idleTimeoutMs, ca } = this.#options;
    const connect = buildConnector({
      rejectUnauthorized: true, // Whatever NODE_TLS_REJECT_UNAUTHORIZED says.
      minVersion: "TLSv1.2",
      ...(ca === undefined ? {} : { ca }),
      lookup: guard.lookup(privateOnly),
      timeout: connectTimeoutMs,
    });
    return new Pool(origin, {
      connect: (options, callback) =>
        connect(options, (...[error, socket]) => {
          if (error === null) callback(null, socket);
          else callback(new ConnectFailedError(error), null);
        }),
      connections: this.#options.maxConnectionsPerReceiver,
      pipelining: 1,
      // The overall deadline of each request stands for both: `bodyTimeout` would begin anew with every chunk.
      headersTimeout: 0,
      bodyTimeout: 0,
      // Short: after an aborted try undici dials once more, and that connection carries nothing.
      keepAliveTimeout: Math.min(4_000, idleTimeoutMs),
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
