import { once } from "node:events";
import { join } from "node:path";
import { startChild } from "../../test/support/child-process.ts";
import type { Child } from "../../test/support/child-process.ts";
import type { LoadOptions, LoadResult } from "./load-generator.ts";
import type { Usage } from "./report-usage.ts";

export type Server = Child<{ readonly port: number }>;

/** Servers that share a port and are measured as one. */
export interface ServerGroup extends AsyncDisposable {
  readonly port: number;
  readonly servers: readonly Server[];
}

export interface Measured extends LoadResult {
  /** CPU of the server processes, all threads: says more than a rate when other work shares the machine. */
  readonly cpuMicrosPerRequest: number;
}

const WARM_UP_MS = 3_000;
const WARM_UP_REQUESTS = 30_000;

export function groupOf(...servers: readonly [Server, ...Server[]]): ServerGroup {
  return {
    port: servers[0].ready.port,
    servers,
    async [Symbol.asyncDispose]() {
      for (const server of servers) await server[Symbol.asyncDispose]();
    },
  };
}

export async function usageOf(server: Server): Promise<Usage> {
  server.process.send("usage");
  const [usage] = (await once(server.process, "message")) as [Usage];
  return usage;
}

const sumOfCpu = async (group: ServerGroup): Promise<number> =>
  (await Promise.all(group.servers.map(usageOf))).reduce(
    (sum, { cpuMicros }) => sum + cpuMicros,
    0,
  );

/** Runs the load generator once and measures the CPU that the servers use meanwhile. */
export async function load(
  built: string,
  group: ServerGroup,
  options: Omit<LoadOptions, "port" | "warmUpRequests" | "warmUpMs">,
): Promise<Measured> {
  const before = await sumOfCpu(group);
  const whole: LoadOptions = {
    ...options,
    port: group.port,
    warmUpRequests: WARM_UP_REQUESTS,
    warmUpMs: WARM_UP_MS,
  };
  const result = await sendLoad(built, whole);
  const used = (await sumOfCpu(group)) - before;
  return { ...result, cpuMicrosPerRequest: used / result.answered };
}

/** Runs the load generator once, in its own process. */
export async function sendLoad(built: string, options: LoadOptions): Promise<LoadResult> {
  await using child = await startChild<LoadResult>(join(built, "bench/lib/load-generator.js"), [
    JSON.stringify(options),
  ]);
  return child.ready;
}
