import type { OutcomeRecord } from "../../domain/outcome.ts";
import { decodeRecord, encodeRecord } from "./codec.ts";

const NO_BYTES = new Uint8Array(0);

export function encodeOutcome(outcome: OutcomeRecord): Buffer {
  return encodeRecord([outcome], NO_BYTES);
}

/** @throws {Error} on a foreign record */
export function decodeOutcome(value: Uint8Array): OutcomeRecord {
  return decodeRecord(value).head[0] as OutcomeRecord;
}
