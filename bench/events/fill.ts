import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import type { EventRow, EventStoreWriter, OutcomeRow } from "../../src/domain/event-store.ts";
import { makeTokenizer } from "../../src/pipeline/record/event-tokens.ts";
import { generateEvents, type GenerateOptions } from "./generate.ts";

export interface FillResult {
  readonly events: number;
  readonly payloadBytes: number;
  readonly attempts: number;
  readonly seconds: number;
}

const BATCH_ROWS = 20_000;
const BATCH_BYTES = 32 * 1024 * 1024;
const EVENTS_PER_TURN = 100;

/**
 * Writes generated events through the recorder's own insert path, in its batch sizes, generating the next batch while
 * the store inserts the last one. For how fast the store alone records, see recording.ts.
 */
export async function fill(
  writer: EventStoreWriter,
  options: GenerateOptions,
  onProgress: (events: number) => void = () => undefined,
): Promise<FillResult> {
  const tokenize = makeTokenizer();
  const startedAt = performance.now();
  let [events, payloadBytes, attempts, batchBytes] = [0, 0, 0, 0];
  let rows: EventRow[] = [];
  let outcomes: OutcomeRow[] = [];
  let inserting: Promise<void> = Promise.resolve();
  const flush = async (): Promise<void> => {
    await inserting;
    inserting = insertBatch(writer, { rows, outcomes, token: `${options.seed}-${events}` });
    [rows, outcomes, batchBytes] = [[], [], 0];
    onProgress(events);
  };
  for (const generated of generateEvents(options)) {
    const { event } = generated;
    rows.push({ event, addTokens: (tokens) => tokenize(event, tokens) });
    if (generated.fanout !== null) outcomes.push(generated.fanout);
    outcomes.push(...generated.attempts);
    events += 1;
    attempts += generated.attempts.length;
    payloadBytes += generated.event.body.length;
    batchBytes += generated.event.body.length;
    if (rows.length >= BATCH_ROWS || batchBytes >= BATCH_BYTES) await flush();
    if (events % EVENTS_PER_TURN === 0) await nextTurn();
  }
  await flush();
  await inserting;
  return {
    events,
    payloadBytes,
    attempts,
    seconds: (performance.now() - startedAt) / 1_000,
  };
}

async function insertBatch(
  writer: EventStoreWriter,
  batch: {
    readonly rows: readonly EventRow[];
    readonly outcomes: readonly OutcomeRow[];
    readonly token: string;
  },
): Promise<void> {
  const { rows, outcomes, token } = batch;
  if (rows.length > 0) await again(() => writer.insertEvents(rows, token));
  if (outcomes.length > 0) await again(() => writer.insertOutcomes(outcomes, token));
}

/** Retries the insert: a fill takes an hour, and a process that is suspended and resumed meanwhile sees its requests time out. */
async function again(insert: () => Promise<void>): Promise<void> {
  for (let failures = 0; ; failures += 1) {
    try {
      return await insert();
    } catch (error) {
      if (failures >= 5) throw error;
      await sleep(1_000);
    }
  }
}
