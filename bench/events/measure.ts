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

const WARM_UP_TIMES = 2;
/** Asked often enough, a question's code is compiled in both processes, and what it reads is in memory. */
const WARM_UP_MS = 3_000;
/** Slow questions are asked less often. */
const BUDGET_MS = 20_000;

export async function measure(question: Question, repeat: number): Promise<Measured> {
  const times: number[] = [];
  let refused: string | null = null;
  const ask = async (): Promise<number> => {
    const askedAt = performance.now();
    try {
      await question.ask();
    } catch (error) {
      refused = error instanceof Error ? error.message : String(error);
    }
    return performance.now() - askedAt;
  };
  const warmUntil = performance.now() + WARM_UP_MS;
  for (let run = 0; refused === null; run += 1) {
    if (run >= WARM_UP_TIMES && performance.now() >= warmUntil) break;
    const ms = await ask();
    if (refused !== null) times.push(ms);
  }
  const startedAt = performance.now();
  while (refused === null && times.length < repeat) {
    times.push(await ask());
    if (performance.now() - startedAt > BUDGET_MS) break;
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
