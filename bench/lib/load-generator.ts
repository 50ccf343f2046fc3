// A separate process: keep-alive connections that each send one request after another, as fast as they are answered.
import { keepSending } from "./request-connection.ts";
import { percentile } from "./stats.ts";
import { stripeRequestsInTurn } from "./stripe-requests.ts";
import type { StripeRequestOptions } from "./stripe-requests.ts";

export interface LoadOptions {
  readonly port: number;
  readonly connections: number;
  /** The warm-up ends after this many answers, since compilers count calls rather than time, or after `warmUpMs`. */
  readonly warmUpRequests: number;
  readonly warmUpMs: number;
  readonly measureMs: number;
  /** Requests a second over all connections; omitted: as fast as answered. A late one is sent at once. */
  readonly perSecond?: number;
  readonly requests: StripeRequestOptions;
}

export interface LoadResult {
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  /** Number of answers by status. */
  readonly statuses: Readonly<Record<string, number>>;
  readonly clientCpu: number;
  /** All answers, including those of the warm-up. */
  readonly answered: number;
}

async function run(options: LoadOptions): Promise<LoadResult> {
  const next = stripeRequestsInTurn(options.requests);
  let measuring = false;
  let latencies = new Float64Array(1 << 20);
  let count = 0;
  let answered = 0;
  const statuses: Record<string, number> = {};
  const { connections, perSecond } = options;
  const intervalMs = perSecond === undefined ? 0 : (connections * 1_000) / perSecond;
  const shared = Buffer.alloc(64 * 1024);

  function open(): void {
    keepSending({
      port: options.port,
      buffer: shared,
      intervalMs,
      next,
      onAnswer(status, latencyMs) {
        answered += 1;
        if (!measuring) return;
        if (count === latencies.length) {
          const larger = new Float64Array(latencies.length * 2);
          larger.set(latencies);
          latencies = larger;
        }
        latencies[count] = latencyMs;
        count += 1;
        statuses[status] = (statuses[status] ?? 0) + 1;
      },
      onError() {
        if (measuring) statuses["error"] = (statuses["error"] ?? 0) + 1;
      },
    });
  }
  for (let index = 0; index < connections; index += 1) open();
  const warmAt = performance.now() + options.warmUpMs;
  while (answered < options.warmUpRequests && performance.now() < warmAt)
    await new Promise((resolve) => setTimeout(resolve, 20));
  const cpu = process.cpuUsage();
  const startedAt = performance.now();
  measuring = true;
  await new Promise((resolve) => setTimeout(resolve, options.measureMs));
  measuring = false;
  const elapsedMs = performance.now() - startedAt;
  const used = process.cpuUsage(cpu);
  const sorted = latencies.subarray(0, count).sort();
  return {
    perSecond: ((statuses["200"] ?? 0) / elapsedMs) * 1_000,
    p50Ms: percentile(sorted, 0.5),
    p99Ms: percentile(sorted, 0.99),
    maxMs: percentile(sorted, 1),
    statuses,
    clientCpu: (used.user + used.system) / 1_000 / elapsedMs,
    answered,
  };
}

process.send?.(await run(JSON.parse(process.argv[2] ?? "{}") as LoadOptions));
process.disconnect();
process.exit(0);
