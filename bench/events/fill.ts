import type { Attempt } from "../../src/domain/attempt.ts";
import type { EventRow, EventStoreWriter, FanoutRow } from "../../src/domain/event-store.ts";
import { eventTokens } from "../../src/pipeline/record/event-tokens.ts";
import { generateEvents, type GenerateOptions } from "./generate.ts";

export interface FillResult {
  readonly events: number;
  readonly payloadBytes: number;
  readonly attempts: number;
  readonly seconds: number;
  /** Time spent waiting for inserts: what the store itself needed. */
  readonly insertSeconds: number;
}

const BATCH_ROWS = 20_000;
const BATCH_BYTES = 32 * 1024 * 1024;

/** Writes generated events through the recorder's own insert path, in its batch sizes. */
export async function fill(
  writer: EventStoreWriter,
  options: GenerateOptions,
  onProgress: (events: number) => void = () => undefined,
): Promise<FillResult> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const startedAt = performance.now();
  let [events, payloadBytes, attempts, insertMs, batchBytes] = [0, 0, 0, 0, 0];
  let rows: EventRow[] = [];
  let fanouts: FanoutRow[] = [];
  let tries: Attempt[] = [];
  const flush = async (): Promise<void> => {
    const token = `${options.seed}-${events}`;
    const flushedAt = performance.now();
    await writer.insertEvents(rows, token);
    if (fanouts.length > 0) await writer.insertFanouts(fanouts, token);
    if (tries.length > 0) await writer.insertAttempts(tries, token);
    insertMs += performance.now() - flushedAt;
    [rows, fanouts, tries, batchBytes] = [[], [], [], 0];
    onProgress(events);
  };
  for (const generated of generateEvents(options)) {
    rows.push({ event: generated.event, tokens: eventTokens(generated.event, decoder) });
    if (generated.fanout !== null) fanouts.push(generated.fanout);
    tries.push(...generated.attempts);
    events += 1;
    attempts += generated.attempts.length;
    payloadBytes += generated.event.body.length;
    batchBytes += generated.event.body.length;
    if (rows.length >= BATCH_ROWS || batchBytes >= BATCH_BYTES) await flush();
  }
  if (rows.length > 0) await flush();
  return {
    events,
    payloadBytes,
    attempts,
    seconds: (performance.now() - startedAt) / 1_000,
    insertSeconds: insertMs / 1_000,
  };
}
