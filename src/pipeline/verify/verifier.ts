import type { Clock } from "../../domain/clock.ts";
import type {
  Verdict,
  VerificationRequest,
  VerificationResult,
} from "../../domain/verification.ts";
import { within } from "../../domain/within.ts";
import { jwksUrlOf } from "./fetched-jwks.ts";
import type { JwksSource } from "./jwks-cache.ts";
import { PoolQueue } from "./pool-queue.ts";
import type { PoolQueueLimits, PoolQueueOptions, VerifyPool } from "./pool-queue.ts";
import { makeVerifyPorts, verifyNow, verifyWithFetchedKeys } from "./verify-request.ts";
import type { VerifyMetrics } from "./verify-metrics.ts";

/** Verifies a request, synchronously when inline. */
type Verify = (request: VerificationRequest) => Verdict | Promise<Verdict>;

export interface VerifierOptions {
  /** Null: everything is verified inline. */
  readonly pool: VerifyPool | null;
  /** Null: `jwks_url` is not supported here. */
  readonly jwks: JwksSource | null;
  readonly metrics: VerifyMetrics;
  readonly clock: Pick<Clock, "monotonic" | "schedule">;
  readonly limits?: Partial<PoolQueueLimits & { readonly inlineMaxBytes: number }>;
  /** Called with the error of a batch that the pool lost. */
  readonly onError?: (error: unknown) => void;
}

export interface Verifier extends AsyncDisposable {
  readonly verify: Verify;
  /** Returns whether `verify` will decide the request synchronously. */
  readonly isInline: (request: VerificationRequest) => boolean;
}

/**
 * Bodies up to this size are hashed on the loop: crossing to a thread costs more than it saves.
 * Set by `bench/verify.ts`; the table is in `bench/README.md`.
 */
const INLINE_MAX_BYTES = 16 * 1024;

/** `waitMs + 2 · runMs` stays under the 3.5 s in which ingest must have answered: see PoolQueue. */
const DEFAULT_LIMITS: PoolQueueLimits = {
  maxQueued: 8192,
  // More than the largest RELAY_MAX_PAYLOAD_BYTES (100 MiB), or bodies of that size would never be verified.
  maxQueuedBytes: 128 * 1024 * 1024,
  maxBatch: 64,
  maxBatchBytes: 1024 * 1024,
  runMs: 1200,
  waitMs: 1000,
};
/** Covers fetching keys, verifying, and both again for a rotated key: all the time that ingest has. */
const FETCHED_KEYS_MS = 3_500;
/**
 * Bounds batches of tokens checked with public keys: the costliest (P-521, with every key of `jwks` that may be tried) takes 16
 * ms, and others wait for the batch.
 */
const MAX_TOKENS_IN_A_BATCH = 16;

/**
 * Makes a verifier that works inline or through the pool, by what a request costs, with the same checks (`verifyNow`). A
 * request whose worker dies or loops is "unavailable", never accepted and never refused.
 */
export function makeVerifier(options: VerifierOptions): Verifier {
  const { pool, metrics, clock } = options;
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const inlineMaxBytes = options.limits?.inlineMaxBytes ?? INLINE_MAX_BYTES;
  const queues =
    pool === null ? null : makeQueues(pool, { metrics, clock, limits, onError: options.onError });
  const ports = makeVerifyPorts(options.jwks);

  const verifyInline = (request: VerificationRequest): VerificationResult => {
    const startedAt = clock.monotonic();
    const result = verifyNow(request, ports.checks);
    const seconds = (clock.monotonic() - startedAt) / 1000;
    metrics.verified(request.method, "inline", result.reason, seconds);
    return result;
  };

  const verifyPooled = async (request: VerificationRequest, queue: PoolQueue): Promise<Verdict> => {
    const startedAt = clock.monotonic();
    const result = await queue.verify(request);
    if (result !== "unavailable") {
      const seconds = (clock.monotonic() - startedAt) / 1000;
      metrics.verified(request.method, "pool", result.reason, seconds);
    }
    return result;
  };

  const queueOf = (request: VerificationRequest): PoolQueue | null => {
    if (queues === null || !isForPool(request, inlineMaxBytes)) return null;
    return isToken(request) ? queues.tokens : queues.bodies;
  };

  const verifyPrepared: Verify = (request) => {
    const queue = queueOf(request);
    return queue === null ? verifyInline(request) : verifyPooled(request, queue);
  };

  const giveUp = (): "unavailable" => {
    metrics.unavailable("too_late");
    return "unavailable";
  };

  return {
    verify: (request) => {
      const jwksUrl = jwksUrlOf(request);
      if (jwksUrl === null) return verifyPrepared(request);
      const verifying = verifyWithFetchedKeys(jwksUrl, request, ports, verifyPrepared);
      return within(verifying, FETCHED_KEYS_MS, giveUp, clock);
    },
    isInline: (request) => jwksUrlOf(request) === null && queueOf(request) === null,
    [Symbol.asyncDispose]: async () => {
      await Promise.all([
        queues?.tokens[Symbol.asyncDispose](),
        queues?.bodies[Symbol.asyncDispose](),
      ]);
    },
  };
}

interface Queues {
  /** Requests that are only hashed: their size says what they cost. */
  readonly bodies: PoolQueue;
  /**
   * Tokens checked with public keys, which cost a hundred times as much and need no secret to send: bodies must not wait behind
   * a flood of them.
   */
  readonly tokens: PoolQueue;
}

function makeQueues(
  pool: VerifyPool,
  options: Pick<PoolQueueOptions, "clock" | "limits" | "onError"> & {
    readonly metrics: VerifyMetrics;
  },
): Queues {
  const { limits, metrics } = options;
  const maxBatch = Math.min(limits.maxBatch, MAX_TOKENS_IN_A_BATCH);
  // They are reported as one.
  const onChange = (): void =>
    metrics.queued(bodies.queued + tokens.queued, bodies.queuedBytes + tokens.queuedBytes);
  const bodies = new PoolQueue({ ...options, pool, onChange, batchesPerThread: 2 });
  const tokens = new PoolQueue({
    ...options,
    pool,
    onChange,
    limits: { ...limits, maxBatch },
    batchesPerThread: 1,
  });
  return { bodies, tokens };
}

/** Returns whether a request costs enough to be worth a thread. */
function isForPool(request: VerificationRequest, inlineMaxBytes: number): boolean {
  switch (request.method) {
    case "bearer_token":
    case "basic_auth":
    case "ip_allowlist":
    case "none":
      return false;
    case "jwt":
      return isToken(request) || request.body.byteLength > inlineMaxBytes;
    case "hmac_sha256":
    case "hmac_sha1":
    case "twilio_signature":
      return request.body.byteLength > inlineMaxBytes;
    default:
      return request.method satisfies never;
  }
}

function isToken({ method, config }: VerificationRequest): boolean {
  return method === "jwt" && (Object.hasOwn(config, "public_key") || Object.hasOwn(config, "jwks"));
}
