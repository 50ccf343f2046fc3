import fc from "fast-check";
import type { Attempt } from "../../src/domain/attempt.ts";
import { ATTEMPT_STATUSES, PROVIDERS } from "../../src/domain/enums.ts";
import type { EventRow } from "../../src/domain/event-store.ts";
import type { FanoutRecord } from "../../src/domain/outcome.ts";
import type { EventRecord } from "../../src/domain/event.ts";
import { attemptId, encodeTime } from "../../src/domain/ids.ts";

export const BASE_TIME_MS = Date.UTC(2026, 10, 20, 12);
export const ORGS = ["org_a", "org_b"] as const;
export const ENDPOINTS = ["ep_1", "ep_2", "ep_3"] as const;
export const DESTINATIONS = ["dst_1", "dst_2", "dst_3"] as const;

/** Returns a well-formed event id of this time; `seed` gives the random part. */
function eventId(timeMs: number, seed: number): string {
  return `evt_${encodeTime(timeMs)}${String(seed).padStart(16, "0")}`;
}

export function makeEvent(seed: number, over: Partial<EventRecord> = {}): EventRecord {
  const receivedAtMs = over.receivedAtMs ?? BASE_TIME_MS + seed;
  const body = over.body ?? Buffer.from(`{"n":${seed}}`);
  return {
    id: eventId(receivedAtMs, seed),
    orgId: "org_a",
    endpointId: "ep_1",
    provider: "stripe",
    receivedAtMs,
    method: "POST",
    path: "/in/token",
    query: "",
    headers: [["Content-Type", "application/json"]],
    contentType: "application/json",
    sourceIp: "192.0.2.1",
    signatureValid: true,
    verificationError: null,
    reason: "ok",
    bodyStored: true,
    payloadSizeBytes: body.length,
    ...over,
    body,
  };
}

export function makeAttempt(event: EventRecord, over: Partial<Attempt> = {}): Attempt {
  const run = over.run ?? "event";
  const destinationId = over.destinationId ?? "dst_1";
  const tryNumber = over.tryNumber ?? 1;
  const deferral = over.deferral ?? 0;
  return {
    id: attemptId(
      event.receivedAtMs,
      `${event.id}|${destinationId}|${run}|${tryNumber}|${deferral}`,
    ),
    eventId: event.id,
    destinationId,
    endpointId: event.endpointId,
    orgId: event.orgId,
    provider: event.provider,
    signatureValid: event.signatureValid,
    eventReceivedAtMs: event.receivedAtMs,
    run,
    trigger: run === "event" ? "event" : "replay",
    tryNumber,
    deferral,
    attemptedAtMs: event.receivedAtMs + tryNumber * 1_000 + deferral,
    receiverUrl: "https://receiver.example/hook",
    httpStatus: 200,
    responseBody: "ok",
    latencyMs: 12,
    status: "delivered",
    nextRetryAtMs: null,
    ...over,
  };
}

export function makeFanout(event: EventRecord, over: Partial<FanoutRecord> = {}): FanoutRecord {
  return {
    kind: "fanout",
    eventId: event.id,
    orgId: event.orgId,
    endpointId: event.endpointId,
    provider: event.provider,
    signatureValid: event.signatureValid,
    eventReceivedAtMs: event.receivedAtMs,
    run: "event",
    destinationIds: ["dst_1"],
    atMs: event.receivedAtMs + 5,
    ...over,
  };
}

/** Words made of what trips searches up. */
export const WORDS = [
  "abc",
  "ABC",
  "aBc",
  "%",
  "_",
  "a_c",
  "a%c",
  "'",
  '"',
  "\\",
  "a\\c",
  "\\n",
  "é",
  "É",
  "ß",
  "日本",
  "😀",
  "😀".repeat(200),
  "{x:String}",
  "--",
  "null",
  "true",
  "1.0",
  "1",
  "-0",
  "1e5",
  "12345678901234567890",
  "",
  "a.b",
  "headers",
  "payload",
  "\0",
  "\t",
] as const;

const word = fc.constantFrom(...WORDS);
const key = fc.oneof(word, fc.string({ maxLength: 4, unit: "grapheme" }));
const scalar = fc.oneof(
  word,
  fc.string({ maxLength: 8, unit: "grapheme" }),
  fc.integer(),
  fc.boolean(),
  fc.constant(null),
);
const { tree } = fc.letrec((tie) => ({
  tree: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    scalar,
    fc.array(tie("tree"), { maxLength: 3 }),
    fc.dictionary(key, tie("tree"), { maxKeys: 3 }),
  ),
}));

const body = fc.oneof(
  {
    weight: 5,
    arbitrary: fc
      .dictionary(key, tree, { maxKeys: 4 })
      .map((value) => Buffer.from(JSON.stringify(value))),
  },
  {
    weight: 1,
    arbitrary: fc.array(tree).map((value) => Buffer.from(JSON.stringify(value, null, 1))),
  },
  {
    weight: 1,
    arbitrary: fc
      .array(fc.tuple(word, word), { maxLength: 4 })
      .map((pairs) =>
        Buffer.from(
          new URLSearchParams(
            pairs.map(([name, value]): [string, string] => [name, value]),
          ).toString(),
        ),
      ),
  },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 12 }).map((bytes) => Buffer.from(bytes)) },
  { weight: 1, arbitrary: fc.array(word).map((words) => Buffer.from(words.join(" "))) },
);

/** Generates random events; `seed` keeps ids unique. */
export function eventArbitrary(seed: number): fc.Arbitrary<EventRecord> {
  return fc
    .record({
      orgId: fc.constantFrom(...ORGS),
      endpointId: fc.constantFrom(...ENDPOINTS),
      provider: fc.constantFrom(...PROVIDERS),
      // Few distinct times over three days, for ties and several partitions.
      receivedAtMs: fc.integer({ min: 0, max: 20 }).map((n) => BASE_TIME_MS + n * 7_200_000),
      signatureValid: fc.boolean(),
      query: fc.string({ maxLength: 5 }),
      headers: fc.array(
        fc.tuple(
          fc.constantFrom("X-Test", "x-test", "X-Other", "Content-Type"),
          word.map((text) => text.replaceAll(/[\0\t]/g, "")),
        ),
        { maxLength: 3 },
      ),
      contentType: fc.constantFrom(null, "application/json", "application/x-www-form-urlencoded"),
      body,
    })
    .map((over) =>
      makeEvent(seed, {
        ...over,
        verificationError: over.signatureValid ? null : "the signature does not match",
        reason: over.signatureValid ? "ok" : "signature_mismatch",
      }),
    );
}

/** Returns a function that adds these texts as an event's tokens, as its row does. */
export function adding(...texts: string[]): EventRow["addTokens"] {
  return (tokens) => {
    for (const text of texts) {
      tokens.text(text);
      tokens.end();
    }
  };
}

/** Generates an event's attempts, with several runs, destinations, statuses and ties in time. */
export function attemptsArbitrary(event: EventRecord): fc.Arbitrary<Attempt[]> {
  return fc
    .uniqueArray(
      fc.record({
        destinationId: fc.constantFrom(...DESTINATIONS),
        run: fc.constantFrom("event", "01REPLAY"),
        tryNumber: fc.integer({ min: 1, max: 3 }),
        deferral: fc.integer({ min: 0, max: 1 }),
        status: fc.constantFrom(...ATTEMPT_STATUSES),
        delayMs: fc.integer({ min: 0, max: 3 }),
        waitMs: fc.integer({ min: 1, max: 9 }),
      }),
      {
        maxLength: 8,
        selector: (a) => `${a.destinationId}|${a.run}|${a.tryNumber}|${a.deferral}`,
      },
    )
    .map((attempts) =>
      attempts.map(({ delayMs, waitMs, ...over }) => {
        const attemptedAtMs = event.receivedAtMs + 1_000 + delayMs;
        const isEnd = over.status === "delivered" || over.status === "dead";
        const nextRetryAtMs = isEnd ? null : attemptedAtMs + waitMs;
        return makeAttempt(event, { ...over, attemptedAtMs, nextRetryAtMs });
      }),
    );
}
