// A separate process: steady requests throughout and, for a while, many more connections that send as fast as they are answered.
import { keepSending } from "./request-connection.ts";
import { percentile } from "./stats.ts";
import { stripeRequestsInTurn } from "./stripe-requests.ts";
import type { StripeRequestOptions } from "./stripe-requests.ts";

export interface BurstOptions {
  readonly port: number;
  readonly requests: StripeRequestOptions;
  readonly steadyConnections: number;
  /** Total over all steady connections. */
  readonly steadyPerSecond: number;
  readonly burstConnections: number;
  readonly warmUpSeconds: number;
  readonly beforeSeconds: number;
  readonly burstSeconds: number;
  readonly afterSeconds: number;
}

export interface Second {
  readonly accepted: number;
  readonly refused: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

export interface BurstResult {
  /** Consecutive seconds since the end of the warm-up; each request counts in the second of its answer. */
  readonly seconds: readonly Second[];
  /** Total 200 answers and cut connections, warm-up included. */
  readonly accepted: number;
  readonly cut: number;
}

interface Bucket {
  accepted: number;
  refused: number;
  latenciesMs: number[];
}

async function run(options: BurstOptions): Promise<BurstResult> {
  const next = stripeRequestsInTurn(options.requests);
  const total = options.beforeSeconds + options.burstSeconds + options.afterSeconds;
  const buckets = Array.from({ length: total }, (): Bucket => ({
    accepted: 0,
    refused: 0,
    latenciesMs: [],
  }));
  const shared = Buffer.alloc(64 * 1024);
  const startMs = performance.now() + options.warmUpSeconds * 1_000;
  const endMs = startMs + total * 1_000;
  let accepted = 0;
  let cut = 0;

  /** Opens a connection that sends one request after another until `untilMs`, at least `intervalMs` apart. */
  function open(intervalMs: number, untilMs: number): void {
    keepSending({
      port: options.port,
      buffer: shared,
      intervalMs,
      next: () => (performance.now() < untilMs ? next() : null),
      onAnswer: note,
      onError() {
        cut += 1;
      },
    });
  }

  function note(status: string, latencyMs: number): void {
    if (status === "200") accepted += 1;
    const bucket = buckets[Math.floor((performance.now() - startMs) / 1_000)];
    if (bucket === undefined) return;
    bucket.latenciesMs.push(latencyMs);
    if (status === "200") bucket.accepted += 1;
    else bucket.refused += 1;
  }

  const intervalMs = (options.steadyConnections * 1_000) / options.steadyPerSecond;
  for (let index = 0; index < options.steadyConnections; index += 1) open(intervalMs, endMs);
  const burstFromMs = startMs + options.beforeSeconds * 1_000;
  await new Promise((resolve) => setTimeout(resolve, burstFromMs - performance.now()));
  for (let index = 0; index < options.burstConnections; index += 1)
    open(0, burstFromMs + options.burstSeconds * 1_000);
  await new Promise((resolve) => setTimeout(resolve, endMs + 1_000 - performance.now()));
  return {
    seconds: buckets.map(({ latenciesMs, accepted: taken, refused }) => {
      latenciesMs.sort((a, b) => a - b);
      return {
        accepted: taken,
        refused,
        p50Ms: percentile(latenciesMs, 0.5),
        p99Ms: percentile(latenciesMs, 0.99),
        maxMs: percentile(latenciesMs, 1),
      };
    }),
    accepted,
    cut,
  };
}

process.send?.(await run(JSON.parse(process.argv[2] ?? "{}") as BurstOptions));
process.disconnect();
process.exit(0);
