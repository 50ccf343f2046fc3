import type { Attempt } from "../../src/domain/attempt.ts";
import type { Provider } from "../../src/domain/enums.ts";
import type { FanoutRecord } from "../../src/domain/outcome.ts";
import type { EventRecord } from "../../src/domain/event.ts";
import { attemptId, encodeTime } from "../../src/domain/ids.ts";
import { makePayload } from "./payloads.ts";
import { makeRandom, type SeededRandom } from "./random.ts";

/** The organization that is queried owns half of the events; the rest belong to a thousand others. */
export const ASKED_ORG = "org_01ASKED0000000000000000000";
const OTHER_ORGS = 1_000;
const ENDPOINTS_OF_ASKED = 50;
const ENDPOINTS_OF_OTHERS = 3;
const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

export interface Generated {
  readonly event: EventRecord;
  readonly fanout: FanoutRecord | null;
  readonly attempts: readonly Attempt[];
}

export interface GenerateOptions {
  readonly seed: number;
  readonly count: number;
  readonly endMs: number;
  /** The events are spread evenly over this many days, oldest first, as they would arrive. */
  readonly days: number;
  /** Approximate payload bytes per event; undefined: the realistic mix. */
  readonly payloadBytes?: number;
}

/** Generates events from a seed: the same options yield the same events. */
export function* generateEvents(options: GenerateOptions): Generator<Generated> {
  const random = makeRandom(options.seed);
  const spanMs = options.days * 86_400_000;
  const startMs = options.endMs - spanMs;
  for (let index = 0; index < options.count; index += 1) {
    const receivedAtMs = Math.floor(startMs + (index / options.count) * spanMs);
    yield generateOne(random, receivedAtMs, index, options.payloadBytes);
  }
}

function generateOne(
  random: SeededRandom,
  receivedAtMs: number,
  index: number,
  payloadBytes: number | undefined,
): Generated {
  const asked = random.unit() < 0.5;
  const orgNumber = Math.floor(random.unit() * OTHER_ORGS);
  const orgId = asked ? ASKED_ORG : `org_01OTHER${String(orgNumber).padStart(19, "0")}`;
  const endpoint = random.zipf(asked ? ENDPOINTS_OF_ASKED : ENDPOINTS_OF_OTHERS);
  const endpointId = endpointOf(asked ? "asked" : String(orgNumber), endpoint);
  const provider = providerOf(endpoint);
  const { body, contentType, headers } = makePayload(random, provider, payloadBytes);
  const signatureValid = random.unit() > 0.03;
  const event: EventRecord = {
    id: `evt_${encodeTime(receivedAtMs)}${random.text(16, ALPHABET)}`,
    orgId,
    endpointId,
    provider,
    receivedAtMs,
    method: "POST",
    path: `/in/${endpointId.slice(3)}`,
    query: "",
    headers,
    contentType,
    sourceIp: `203.0.113.${index % 200}`,
    signatureValid,
    verificationError: signatureValid
      ? null
      : "The signature does not match: check that the secret is the one shown by the provider",
    reason: signatureValid ? "ok" : "signature_mismatch",
    bodyStored: true,
    payloadSizeBytes: body.length,
    body,
  };
  if (!signatureValid) return { event, fanout: null, attempts: [] };
  const destinationIds = Array.from({ length: 1 + (endpoint % 2) }, (_, n) =>
    destinationOf(endpointId, n),
  );
  return {
    event,
    fanout: {
      kind: "fanout",
      eventId: event.id,
      orgId,
      endpointId,
      provider,
      signatureValid,
      eventReceivedAtMs: receivedAtMs,
      run: "event",
      destinationIds,
      atMs: receivedAtMs + 3,
    },
    attempts: destinationIds.flatMap((id) => attemptsOf(random, event, id)),
  };
}

/** Returns the event's attempts: one event in twelve fails first and is retried; one in a hundred ends dead. */
function attemptsOf(random: SeededRandom, event: EventRecord, destinationId: string): Attempt[] {
  const luck = random.unit();
  const tries = luck < 0.01 ? 4 : luck < 0.08 ? 2 : 1;
  return Array.from({ length: tries }, (_, index) => {
    const tryNumber = index + 1;
    const last = tryNumber === tries;
    const status = !last
      ? random.unit() < 0.3
        ? "timeout"
        : "failed"
      : tries === 4
        ? "dead"
        : "delivered";
    const attemptedAtMs = event.receivedAtMs + 20 + index * 30_000;
    return {
      id: attemptId(event.receivedAtMs, `${event.id}|${destinationId}|event|${tryNumber}|0`),
      eventId: event.id,
      destinationId,
      endpointId: event.endpointId,
      orgId: event.orgId,
      provider: event.provider,
      signatureValid: true,
      eventReceivedAtMs: event.receivedAtMs,
      run: "event",
      trigger: "event",
      tryNumber,
      deferral: 0,
      attemptedAtMs,
      receiverUrl: `https://hooks.example.com/${destinationId}`,
      httpStatus: status === "delivered" ? 200 : status === "timeout" ? 0 : 503,
      responseBody: status === "delivered" ? "ok" : "upstream connect error",
      latencyMs: Math.floor(20 + random.unit() * 200),
      status,
      nextRetryAtMs: last ? null : attemptedAtMs + 30_000,
    };
  });
}

export function endpointOf(owner: string, number: number): string {
  return `ep_01${owner.toUpperCase()}${String(number).padStart(20, "0")}`;
}

export function destinationOf(endpointId: string, number: number): string {
  return `dst_${endpointId.slice(3)}${number}`;
}

const PROVIDER_OF_ENDPOINT: readonly Provider[] = [
  "stripe",
  "github",
  "shopify",
  "custom",
  "stripe",
  "linear",
  "twilio",
  "shopify",
];

function providerOf(endpoint: number): Provider {
  return PROVIDER_OF_ENDPOINT[endpoint % PROVIDER_OF_ENDPOINT.length]!;
}
