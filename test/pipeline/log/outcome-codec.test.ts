import fc from "fast-check";
import { expect, test } from "vitest";
import { ATTEMPT_STATUSES, PROVIDERS } from "../../../src/domain/enums.ts";
import type { FollowUp, OutcomeRecord } from "../../../src/domain/outcome.ts";
import { encodeRecord } from "../../../src/pipeline/log/codec.ts";
import { decodeOutcome, encodeOutcome } from "../../../src/pipeline/log/outcome-codec.ts";

const text = fc.string({ unit: "grapheme", maxLength: 80 });
const long = fc.oneof(text, fc.constantFrom("", "ü".repeat(65_536), "x".repeat(70_000)));
const time = fc.oneof(
  fc.integer({ min: 0, max: 4_102_444_800_000 }),
  fc.double({ noNaN: true, min: 0 }),
);
const count = fc.nat();

const followUp: fc.Arbitrary<FollowUp | null> = fc.option(
  fc.record({ tryNumber: count, deferrals: count, dueAtMs: time }),
);
const attempt: fc.Arbitrary<OutcomeRecord> = fc.record({
  kind: fc.constant("attempt" as const),
  attempt: fc.record({
    id: text,
    eventId: text,
    destinationId: text,
    endpointId: text,
    orgId: text,
    provider: fc.constantFrom(...PROVIDERS),
    signatureValid: fc.boolean(),
    eventReceivedAtMs: time,
    run: text,
    trigger: fc.constantFrom("event" as const, "replay" as const),
    tryNumber: count,
    deferral: count,
    attemptedAtMs: time,
    receiverUrl: long,
    httpStatus: count,
    responseBody: long,
    latencyMs: count,
    status: fc.constantFrom(...ATTEMPT_STATUSES),
    nextRetryAtMs: fc.option(time),
  }),
  followUp,
});
const fanout: fc.Arbitrary<OutcomeRecord> = fc.record({
  kind: fc.constant("fanout" as const),
  eventId: text,
  orgId: text,
  endpointId: text,
  provider: fc.constantFrom(...PROVIDERS),
  signatureValid: fc.boolean(),
  eventReceivedAtMs: fc.nat(),
  run: text,
  destinationIds: fc.array(text),
  atMs: fc.nat(),
});
const released: fc.Arbitrary<OutcomeRecord> = fc.record({
  kind: fc.constant("released" as const),
  ownerId: text,
  atMs: fc.nat(),
});

test("an outcome is read as it was written", () => {
  fc.assert(
    fc.property(fc.oneof(attempt, fanout, released), (outcome) => {
      expect(decodeOutcome(encodeOutcome(outcome))).toEqual(outcome);
    }),
    { numRuns: 500 },
  );
});

test("a record that is no outcome is refused", () => {
  expect(() => decodeOutcome(encodeRecord(["surprise", {}], []))).toThrow(/kind "surprise"/);
  expect(() => decodeOutcome(encodeRecord([], []))).toThrow(/kind/);
});

test("the error of an outcome of another version quotes nothing of it: a receiver's answer went into the log", () => {
  const foreign = encodeRecord([{ kind: "attempt", responseBody: "the answer" }], []);
  expect(() => decodeOutcome(foreign)).toThrow(/of unknown kind object among/);
});
