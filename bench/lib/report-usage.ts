import { readFileSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";

/** What a process has used in total, and how late its event loop was since the last report. */
export interface Usage {
  readonly cpuMicros: number;
  /** Anonymous pages only: the system can reclaim those of mapped files. */
  readonly anonymousBytes: number;
  readonly loopDelayP99Ms: number;
  readonly loopDelayMaxMs: number;
}

/** Answers every message of the parent with `Usage`. */
export function reportUsageOnRequest(): void {
  const delay = monitorEventLoopDelay({ resolution: 5 });
  delay.enable();
  process.on("message", () => {
    const { user, system } = process.cpuUsage();
    process.send?.({
      cpuMicros: user + system,
      anonymousBytes: anonymousBytes(),
      loopDelayP99Ms: delay.percentile(99) / 1e6,
      loopDelayMaxMs: delay.max / 1e6,
    } satisfies Usage);
    delay.reset();
  });
}

function anonymousBytes(): number {
  try {
    const [, kilobytes = "0"] =
      /^RssAnon:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8")) ?? [];
    return Number(kilobytes) * 1_024;
  } catch {
    return process.memoryUsage().rss; // /proc exists on Linux only.
  }
}
