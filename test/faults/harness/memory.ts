import { readFileSync } from "node:fs";
import type { Cluster } from "../../support/cluster.ts";

const EVERY_MS = 2_000;
/** Allowed growth beyond the middle third's peak: how much a heap of this size varies between two collections. */
const SLACK_MB = 80;

export interface MemoryWatch extends AsyncDisposable {
  /** Lists nodes whose resident memory was clearly higher in the last third of the time than in the middle one. */
  growing(): readonly string[];
  describe(): string;
}

/** Watches the resident memory of every node, across restarts. */
export function watchMemory({ nodes }: Cluster): MemoryWatch {
  const samples = new Map<string, number[]>([...nodes.keys()].map((name) => [name, []]));
  const timer = setInterval(() => {
    for (const [name, node] of nodes) {
      const sizeMb = residentMb(node.pid());
      if (sizeMb !== null) samples.get(name)?.push(sizeMb);
    }
  }, EVERY_MS);
  const peaks = (values: readonly number[]) => {
    const third = Math.floor(values.length / 3);
    const peak = (part: readonly number[]) => Math.max(0, ...part);
    return [
      peak(values.slice(0, third)),
      peak(values.slice(third, 2 * third)),
      peak(values.slice(2 * third)),
    ] as const;
  };
  return {
    growing: () =>
      [...samples].flatMap(([name, values]) => {
        const [, middle, last] = peaks(values);
        return last > middle * 1.3 + SLACK_MB ? [`${name}: ${middle} MB, then ${last} MB`] : [];
      }),
    describe: () =>
      [...samples]
        .map(([name, values]) => `${name}: peaks of its thirds ${peaks(values).join(", ")} MB`)
        .join("; "),
    [Symbol.asyncDispose]: async () => clearInterval(timer),
  };
}

function residentMb(pid: number): number | null {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const [, kilobytes] = /^VmRSS:\s+(\d+) kB$/m.exec(status) ?? [];
    return kilobytes === undefined ? null : Math.round(Number(kilobytes) / 1_024);
  } catch {
    return null;
  }
}
