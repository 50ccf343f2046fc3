import type { Question } from "./questions.ts";

export interface Measured {
  readonly name: string;
  readonly targetMs: number | null;
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly p99Ms: number;
  /** The error with which the question was refused (such as a time limit), or null. */
  readonly refused: string | null;
  /** The number of events in the answer; null where it does not count any. */
  readonly found: number | null;
}

const WARM_UP_TIMES = 2;
/** Long enough for a question's code to be compiled in both processes, and for the data it reads to be in memory. */
const WARM_UP_MS = 3_000;
/** Caps the time per question: slow questions are asked less often. */
const BUDGET_MS = 20_000;

export async function measure(question: Question, repeat: number): Promise<Measured> {
  const warmUp = await askAgain(
    question,
    (times, elapsedMs) => times >= WARM_UP_TIMES && elapsedMs >= WARM_UP_MS,
  );
  const { times, refused, found } =
    warmUp.refused === null
      ? await askAgain(question, (count, elapsedMs) => count >= repeat || elapsedMs > BUDGET_MS)
      : warmUp;
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
    found,
  };
}

/** Asks until it `isEnough` or the question is refused. @returns the times in ms */
async function askAgain(
  question: Question,
  isEnough: (times: number, elapsedMs: number) => boolean,
): Promise<{ readonly times: number[] } & Pick<Measured, "refused" | "found">> {
  const times: number[] = [];
  let found: number | null = null;
  const startedAt = performance.now();
  while (!isEnough(times.length, performance.now() - startedAt)) {
    const askedAt = performance.now();
    try {
      found = foundBy(await question.ask());
    } catch (error) {
      const refused = error instanceof Error ? error.message : String(error);
      return { times: [performance.now() - askedAt], refused, found: null };
    }
    times.push(performance.now() - askedAt);
  }
  return { times, refused: null, found };
}

function foundBy(answer: unknown): number | null {
  const { total, totalEvents } = (answer ?? {}) as {
    readonly total?: number;
    readonly totalEvents?: number;
  };
  return total ?? totalEvents ?? null;
}

export function formatRow(result: Measured): string {
  const numbers = [result.p50Ms, result.p95Ms, result.p99Ms]
    .map((ms) => ms.toFixed(1).padStart(9))
    .join("");
  const target = result.targetMs === null ? "" : `  target ${result.targetMs}`;
  const found = result.found === null ? "" : `  ${result.found} events`;
  const refused = result.refused === null ? "" : `  refused: ${result.refused}`;
  return `${result.name.padEnd(34)}${numbers} ms (p50 p95 p99)${target}${found}${refused}`;
}
