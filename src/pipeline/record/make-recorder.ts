import type { Clock } from "../../domain/clock.ts";
import {
  isFanout,
  type EventRow,
  type EventStoreWriter,
  type OutcomeRow,
} from "../../domain/event-store.ts";
import { makeFailureWatch } from "../../domain/failure-watch.ts";
import type { Log, LogConsumer, Topic } from "../../domain/log.ts";
import type { Logger } from "../../domain/logger.ts";
import { fanoutKey } from "../../domain/run-keys.ts";
import { decodeEvent } from "../log/event-codec.ts";
import { decodeOutcome } from "../log/outcome-codec.ts";
import { makeTokenizer } from "./event-tokens.ts";
import type { RecordMetrics } from "./record-metrics.ts";
import { TopicRecorder } from "./topic-recorder.ts";

const GROUP = "recorder";
/** Keeps events visible within a second. */
const EVENTS_SPACING_MS = 900;
/** Less than the 0.4 s that a list waits for the fan-outs of its events (`make-event-queries.ts`). */
const OUTCOMES_SPACING_MS = 300;
/** Small enough that decoding one hand-over does not block the loop for long. */
const HAND_OVER_BYTES = 256 * 1024;

export interface RecordPorts {
  /** Called when it must be made anew. */
  readonly failed: (error: Error) => void;
  readonly log: Pick<Log, "consume">;
  readonly store: EventStoreWriter;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: RecordMetrics;
}

export interface Recorder extends AsyncDisposable {
  start(): Promise<void>;
  /** Records in the log that are not in the store yet, by topic. */
  lag(): Promise<ReadonlyMap<Topic, number>>;
}

/**
 * Makes the recorder, which copies events and outcomes from the log into the event store: in batches, each announced in the
 * commit metadata before it is inserted, so that after a crash exactly the same batch is repeated. While the store is down the
 * same batch is repeated, and the log holds the rest.
 */
export function makeRecorder(ports: RecordPorts): Recorder {
  const { failed, log, store, clock, logger, metrics } = ports;
  const tokenize = makeTokenizer();
  const shared = { clock, logger, metrics, failed };
  const events = new TopicRecorder<EventRow>({
    ...shared,
    topic: "events",
    decode: (record) => {
      const event = decodeEvent(record.value);
      return { event, addTokens: (tokens) => tokenize(event, tokens) };
    },
    idOf: ({ event }) => event.id,
    maxSpacingMs: EVENTS_SPACING_MS,
    insert: (rows, token, signal) => store.insertEvents(rows, token, signal),
  });
  const outcomes = new TopicRecorder<OutcomeRow>({
    ...shared,
    topic: "attempts",
    decode: (record) => {
      const outcome = decodeOutcome(record.value);
      switch (outcome.kind) {
        case "fanout":
          return outcome;
        case "attempt":
          return outcome.attempt;
        case "released":
          return null;
        default:
          return outcome satisfies never;
      }
    },
    idOf: (row) => (isFanout(row) ? fanoutKey(row.eventId, row.run) : row.id),
    maxSpacingMs: OUTCOMES_SPACING_MS,
    insert: (rows, token, signal) => store.insertOutcomes(rows, token, signal),
  });
  const recorders = [events, outcomes];
  let consumer: LogConsumer | null = null;
  return {
    async start() {
      consumer = await log.consume({
        group: GROUP,
        topics: ["events", "attempts"],
        maxBatchBytes: HAND_OVER_BYTES,
        async onAssigned(partition) {
          for (const recorder of recorders) recorder.assigned(partition);
        },
        async onRevoked(partition) {
          await Promise.all(recorders.map((recorder) => recorder.revoked(partition)));
        },
        onRecords: (partition, topic, records) =>
          (topic === "events" ? events : outcomes).push(partition, records),
        ...makeFailureWatch({
          clock,
          failed: (fields) => logger.error(fields, "record.consumer_failed"),
          restored: (fields) => logger.info(fields, "record.consumer_restored"),
        }),
      });
    },
    lag: async () => (await consumer?.lag()) ?? new Map(),
    async [Symbol.asyncDispose]() {
      await Promise.all(recorders.map((recorder) => recorder[Symbol.asyncDispose]()));
      await consumer?.[Symbol.asyncDispose]();
    },
  };
}
