import type { Question } from "./questions.ts";

export interface Measured {
  readonly name: string;
  readonly targetMs: number | null;
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly p99Ms: number;
  /** Null, or how the question was refused (a time limit). */
  readonly refused: string | null;
}

const WARM_UP = 2;
/** Slow questions are asked less often. */
const BUDGET_MS = 20_000;

export async function measure(question: Question, repeat: number): Promise<Measured> {
  const times: number[] = [];
  let refused: string | null = null;
  const startedAt = performance.now();
  for (let run = 0; run < repeat + WARM_UP; run += 1) {
    const askedAt = performance.now();
    try {
      await question.ask();
    } catch (error) {
      refused = error instanceof Error ? error.message : String(error);
    }
    if (run >= WARM_UP || refused !== null) times.push(performance.now() - askedAt);
    if (refused !== null || (times.length > 0 && performance.now() - startedAt > BUDGET_MS)) break;
  }
  times.sort((a, b) => a - b);
  const at = (share: number): number =>
    times[Math.min(times.length - 1, Math.ceil(share * times.length) - 1)] ?? 0;
  return {
    name: question.name,
    targetMs: question.targetMs,
    p50Ms: at(0.5),
    p95Ms: at(0.95),
    p99Ms: at(0.99),
    refused,
  };
}

export function formatRow(result: Measured): string {
  const numbers = [result.p50Ms, result.p95Ms, result.p99Ms]
    .map((ms) => ms.toFixed(1).padStart(9))
    .join("");
  const target = result.targetMs === null ? "" : `  target ${result.targetMs}`;
  return `${result.name.padEnd(34)}${numbers} ms (p50 p95 p99)${target}${result.refused === null ? "" : `  refused: ${result.refused}`}`;
}
