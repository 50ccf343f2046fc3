import { readdirSync, readFileSync } from "node:fs";

/**
 * Share of the file descriptors that are free when a server, or the delivery, starts; the rest is for
 * stores and what they open later. Deliveries may keep as many idle connections as they have places.
 */
const SHARE = { ingest: 0.5, api: 0.2, ops: 0.05, delivery: 0.12 } as const;
const MIN_CONNECTIONS = 16;
const MAX_CONNECTIONS = 50_000;

/** This process's open files and their limit, known on Linux only. */
export interface OpenFiles {
  readonly max: number;
  readonly open: number;
}

/**
 * Returns how many connections a server, or the delivery, may have open, so that neither accepting nor receivers that hang can use up
 * the file descriptors.
 */
export function connectionLimit(
  part: keyof typeof SHARE,
  files: OpenFiles | null = readOpenFiles(),
): number {
  if (files === null) return MAX_CONNECTIONS;
  const share = Math.floor((files.max - files.open) * SHARE[part]);
  return Math.min(MAX_CONNECTIONS, Math.max(MIN_CONNECTIONS, share));
}

function readOpenFiles(): OpenFiles | null {
  try {
    const max = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "latin1"))?.[1];
    return max === undefined
      ? null
      : { max: Number(max), open: readdirSync("/proc/self/fd").length };
  } catch {
    return null;
  }
}
