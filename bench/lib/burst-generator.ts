// A process of its own: steady requests all the time, and for a while many connections more that send as fast as answered.
import { connect } from "node:net";
import { percentile } from "./stats.ts";
import { makeStripeRequests } from "./stripe-requests.ts";
import type { StripeRequestOptions } from "./stripe-requests.ts";

export interface BurstOptions {
  readonly port: number;
  readonly requests: StripeRequestOptions;
  readonly steadyConnections: number;
  /** Over all steady connections. */
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
  /** One after the other, from the end of the warm-up on; by the time of the answer. */
  readonly seconds: readonly Second[];
  /** All answers of 200 and all connections that were cut, warm-up included. */
  readonly accepted: number;
  readonly cut: number;
}

const CLOSING_BRACE = 0x7d;

interface Bucket {
  accepted: number;
  refused: number;
  latenciesMs: number[];
}

async function run(options: BurstOptions): Promise<BurstResult> {
  const requests = makeStripeRequests(options.requests);
  const total = options.beforeSeconds + options.burstSeconds + options.afterSeconds;
  const buckets = Array.from({ length: total }, (): Bucket => ({
    accepted: 0,
    refused: 0,
    latenciesMs: [],
  }));
  const shared = Buffer.alloc(64 * 1024);
  const startMs = performance.now() + options.warmUpSeconds * 1_000;
  const endMs = startMs + total * 1_000;
  let next = 0;
  let accepted = 0;
  let cut = 0;

  /** Sends one request after the other until `untilMs`; `intervalMs` apart at least. */
  function open(intervalMs: number, untilMs: number): void {
    let sentAt = 0;
    let status = "";
    const socket = connect({
      host: "127.0.0.1",
      port: options.port,
      noDelay: true,
      onread: {
        buffer: shared,
        callback(size, buffer) {
          if (status === "") status = Buffer.from(buffer.subarray(9, 12)).toString("latin1");
          if (buffer[size - 1] !== CLOSING_BRACE) return true;
          note(status, performance.now() - sentAt);
          status = "";
          sendNext();
          return true;
        },
      },
    });
    function sendNext(): void {
      const nowMs = performance.now();
      if (nowMs >= untilMs) return void socket.destroy();
      const waitMs = sentAt + intervalMs - nowMs;
      if (waitMs > 0) setTimeout(send, waitMs);
      else send();
    }
    function send(): void {
      sentAt = performance.now();
      socket.write(requests[next] ?? "");
      next = (next + 1) % requests.length;
    }
    socket.on("connect", () => setTimeout(send, Math.random() * intervalMs));
    socket.on("error", () => {
      cut += 1;
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
