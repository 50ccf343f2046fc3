import { verifyDelivery } from "../../../src/signing/standard-webhooks.ts";
import { checkAccounts } from "./check-accounts.ts";
import { findRateBreaches } from "./check-rate.ts";
import type { Ledgers, ReceivedRequest, SentRequest, Violation } from "./ledgers.ts";

export interface Allowances {
  /** How many requests one fault may cause to be repeated: tries in flight, and those whose end was not yet durable. */
  readonly duplicatesPerFault: number;
  /** How long before a fault a try may have ended without its end being durable, ms; the promise is 100. */
  readonly notDurableMs: number;
  /** How long after a fault was mended ownership may still move, ms. */
  readonly aftermathMs: number;
}

const RECORDED_REFUSALS = new Set([401, 403, 409, 413, 429]);

/** Returns every promise that the ledgers show to be broken; empty when all hold. */
export function checkInvariants(ledgers: Ledgers, allowances: Allowances): readonly Violation[] {
  return [
    ...checkStored(ledgers),
    ...checkEnds(ledgers),
    ...checkRefusals(ledgers),
    ...checkLimits(ledgers),
    ...checkDeliveries(ledgers),
    ...checkAccounts(ledgers),
    ...checkDuplicates(ledgers, allowances),
  ];
}

const accepted = ({ sent }: Ledgers): readonly (SentRequest & { readonly eventId: string })[] =>
  sent.filter(
    (request): request is SentRequest & { readonly eventId: string } =>
      request.status === 200 && request.eventId !== null,
  );

function* checkStored(ledgers: Ledgers): Iterable<Violation> {
  const { events, payloads } = ledgers.dump;
  const listed = new Map(events.map((event) => [event.id, event]));
  if (listed.size !== events.length)
    yield { invariant: "I1", what: `${events.length - listed.size} events are listed twice` };
  for (const { status, eventId, kind, number } of ledgers.sent)
    if (status === 200 && (eventId === null || kind !== "genuine"))
      yield { invariant: "I1", what: `request ${number} (${kind}) was answered 200` };
  for (const { eventId, body } of accepted(ledgers)) {
    const event = listed.get(eventId);
    if (event === undefined) yield { invariant: "I1", what: `${eventId} is not listed` };
    else if (!event.signatureValid) yield { invariant: "I1", what: `${eventId} counts as forged` };
    const payload = payloads.get(eventId);
    if (payload !== undefined && payload !== body)
      yield { invariant: "I1", what: `${eventId} has other bytes` };
  }
}

function* checkEnds(ledgers: Ledgers): Iterable<Violation> {
  const listed = new Map(ledgers.dump.events.map((event) => [event.id, event]));
  const taken = new Set(
    ledgers.received
      .filter(({ status }) => status !== null && status < 300)
      .map(({ eventId, destinationId }) => `${eventId} ${destinationId}`),
  );
  for (const { eventId, endpointId } of accepted(ledgers)) {
    const wanted = ledgers.destinations.filter((one) => one.endpointId === endpointId);
    const summary = listed.get(eventId)?.summary ?? null;
    if (wanted.length > 0 && summary?.total !== wanted.length)
      yield {
        invariant: "I2",
        what: `${eventId} was given to ${summary?.total ?? 0} of ${wanted.length} destinations`,
      };
    if (summary !== null && summary.pending > 0)
      yield { invariant: "I2", what: `${eventId} has ${summary.pending} pending deliveries` };
    for (const { id, mayEndDead } of wanted)
      if (!mayEndDead && !taken.has(`${eventId} ${id}`))
        yield { invariant: "I2", what: `${eventId} never got to ${id}` };
  }
}

function* checkRefusals({ sent, dump }: Ledgers): Iterable<Violation> {
  const listed = new Map(dump.events.map((event) => [event.id, event]));
  for (const { status, eventId, number } of sent) {
    if (status === null || !RECORDED_REFUSALS.has(status)) continue;
    const event = eventId === null ? undefined : listed.get(eventId);
    if (event === undefined)
      yield { invariant: "I3", what: `${status} of request ${number} (${eventId}) is not listed` };
    else if (event.signatureValid || (event.verificationError ?? "") === "")
      yield { invariant: "I3", what: `${status} of ${eventId} is recorded without its reason` };
  }
}

function* checkLimits({ received, destinations }: Ledgers): Iterable<Violation> {
  for (const { id, limit } of destinations) {
    if (limit === null) continue;
    const requests = received.filter(({ destinationId }) => destinationId === id);
    for (const breach of findRateBreaches(requests, limit))
      yield { invariant: "I4", what: `${id}: ${breach}` };
  }
}

function* checkDeliveries({ sent, received, destinations }: Ledgers): Iterable<Violation> {
  const genuine = new Set(sent.filter(({ kind }) => kind === "genuine").map(({ body }) => body));
  const bodies = new Map(sent.map(({ eventId, body }) => [eventId, body]));
  const secrets = new Map(destinations.map(({ id, secret }) => [id, secret]));
  for (const request of received) {
    const { eventId, destinationId, body, timestamp, signature } = request;
    const known = bodies.get(eventId);
    if (!genuine.has(body) || (known !== undefined && known !== body))
      yield { invariant: "I6", what: `${eventId} was delivered with other bytes` };
    const secret = secrets.get(destinationId);
    const delivery = { id: eventId, timestampSeconds: Number(timestamp), body: Buffer.from(body) };
    if (secret === undefined || !verifyDelivery(delivery, secret, signature))
      yield { invariant: "I6", what: `${eventId} at ${destinationId}: the signature is wrong` };
  }
}

/** Returns requests that came again with the same try number, in order of time. */
export function findDuplicates(
  received: readonly ReceivedRequest[],
): readonly { readonly first: ReceivedRequest; readonly again: ReceivedRequest }[] {
  const duplicates: { first: ReceivedRequest; again: ReceivedRequest }[] = [];
  const seen = new Map<string, ReceivedRequest>();
  for (const request of received.toSorted((a, b) => a.arrivedMs - b.arrivedMs)) {
    const { eventId, destinationId, trigger, tryNumber } = request;
    const key = `${eventId} ${destinationId} ${trigger} ${tryNumber}`;
    const first = seen.get(key);
    if (first !== undefined) duplicates.push({ first, again: request });
    seen.set(key, request);
  }
  return duplicates;
}

/** Yields duplicates that no fault between their two requests explains; each fault explains a limited number. */
function* checkDuplicates(
  { received, faults }: Ledgers,
  { duplicatesPerFault, notDurableMs, aftermathMs }: Allowances,
): Iterable<Violation> {
  const explained = new Map(faults.map((fault) => [fault, 0]));
  for (const { first, again } of findDuplicates(received)) {
    const causes = faults.filter(
      ({ startMs, endMs }) =>
        startMs - notDurableMs <= (first.endedMs ?? again.arrivedMs) &&
        first.arrivedMs <= endMs + aftermathMs &&
        startMs <= again.arrivedMs,
    );
    const cause = causes.find((fault) => (explained.get(fault) ?? 0) < duplicatesPerFault);
    if (cause !== undefined) {
      explained.set(cause, (explained.get(cause) ?? 0) + 1);
      continue;
    }
    const gapMs = Math.round(again.arrivedMs - first.arrivedMs);
    const why = causes.length === 0 ? "no fault explains it" : "more than its fault explains";
    yield {
      invariant: "I8",
      what: `${again.eventId} at ${again.destinationId}: try ${again.tryNumber} came again after ${gapMs} ms (${why})`,
    };
  }
}
