import { readFileSync } from "node:fs";

/** Files that the stores, the log and the receivers' sockets may need besides. */
const RESERVED_FILES = 96;
const LEAST_CONNECTIONS = 64;
const MOST_CONNECTIONS = 50_000;

/** Most connections that may be open, so that accepting can never run out of file descriptors. */
export function connectionLimit(limitsText: string = readLimits()): number {
  const openFiles = /^Max open files\s+(\d+)/m.exec(limitsText)?.[1];
  if (openFiles === undefined) return MOST_CONNECTIONS;
  const free = Number(openFiles) - RESERVED_FILES;
  return Math.min(MOST_CONNECTIONS, Math.max(LEAST_CONNECTIONS, free));
}

/** Linux only; elsewhere nothing is known and the upper bound holds. */
function readLimits(): string {
  try {
    return readFileSync("/proc/self/limits", "latin1");
  } catch {
    return "";
  }
}
