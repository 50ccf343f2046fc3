import { verifyDelivery } from "../../signing/standard-webhooks.ts";
import { printLine } from "../io.ts";
import { FLAKY_FAILURES } from "./receiver.ts";
import { DEAD_RETRIES, type DemoResult } from "./scenario.ts";

/** Prints what people see at the end of the demo. */
export function printReport(result: DemoResult, out: NodeJS.WritableStream): void {
  printLine(out);
  printLine(out, "Webhooks sent");
  for (const webhook of result.sent) {
    const event = result.events.find((candidate) => candidate.id === webhook.eventId);
    const verdict =
      event === undefined
        ? "NOT RECORDED"
        : event.signature_valid
          ? "accepted"
          : `rejected: ${event.verification_error ?? ""}`;
    printLine(
      out,
      `  ${webhook.provider.padEnd(8)} ${webhook.forged ? "forged " : "genuine"}  ${webhook.status}  ${verdict}`,
    );
  }
  printLine(out);
  printLine(out, "Deliveries");
  for (const destination of result.destinations) {
    const attempts = result.attempts.filter((attempt) => attempt.destination_id === destination.id);
    const tries = attempts
      .map(
        (attempt) =>
          `${attempt.status}${attempt.http_status === 0 ? "" : ` (${attempt.http_status})`}`,
      )
      .join(" → ");
    printLine(out, `  ${destination.path.padEnd(7)} ${tries}`);
  }
  printLine(
    out,
    `  ${countVerified(result)} of ${result.receiver.deliveries.length} requests verified by the receiver with its service secret`,
  );
  printLine(out);
  printLine(out, "Facets");
  printLine(out, `  events          ${result.facets.total_events}`);
  printLine(out, `  by provider     ${list(result.facets.by_provider)}`);
  printLine(out, `  signature valid ${list(result.facets.by_signature_valid)}`);
  printLine(out, `  attempts        ${list(result.facets.by_attempt_status)}`);
  printLine(out);
}

function list(
  counts: readonly { readonly value: string | boolean; readonly count: number }[],
): string {
  return counts.map(({ value, count }) => `${String(value)} ${count}`).join(", ");
}

/** Counts, as a receiver would, the requests whose signature verifies with the secret shown at creation. */
function countVerified({ receiver, destinations }: DemoResult): number {
  return receiver.deliveries.filter(({ headers, body }) => {
    const secret = destinations.find(
      (destination) => destination.id === headers["x-relay-destination-id"],
    )?.serviceSecret;
    const timestampSeconds = Number(headers["webhook-timestamp"]);
    return (
      secret !== undefined &&
      verifyDelivery(
        { id: headers["webhook-id"] ?? "", timestampSeconds, body },
        secret,
        headers["webhook-signature"] ?? "",
      )
    );
  }).length;
}

/** Returns where the demo's figures differ from those known beforehand; each difference is a fault of the relay. */
export function findDifferences(result: DemoResult): readonly string[] {
  const { sent, events, attempts, destinations, facets, receiver } = result;
  const genuine = sent.filter((webhook) => !webhook.forged).length;
  const healthy = destinations.filter(({ path }) => path === "/ok").length;
  const wanted = { delivered: healthy + 1, failed: FLAKY_FAILURES + DEAD_RETRIES, dead: 1 };
  const requests = wanted.delivered + wanted.failed + wanted.dead;
  const facet = (status: string): number =>
    facets.by_attempt_status.find(({ value }) => value === status)?.count ?? 0;
  const checks: readonly (readonly [what: string, seen: number, wanted: number])[] = [
    [
      "genuine webhooks answered 200",
      sent.filter(({ forged, status }) => !forged && status === 200).length,
      genuine,
    ],
    [
      "forged webhooks answered 401",
      sent.filter(({ forged, status }) => forged && status === 401).length,
      sent.length - genuine,
    ],
    ["recorded events", events.length, sent.length],
    ["events in the facets", facets.total_events, sent.length],
    [
      "rejected events with a reason",
      events.filter((event) => !event.signature_valid && event.verification_error !== null).length,
      sent.length - genuine,
    ],
    ["recorded attempts", attempts.length, requests],
    ["requests at the receiver", receiver.deliveries.length, requests],
    ["requests that verify", countVerified(result), requests],
    ["delivered attempts", facet("delivered"), wanted.delivered],
    ["failed attempts", facet("failed"), wanted.failed],
    ["dead attempts", facet("dead"), wanted.dead],
  ];
  return checks
    .filter(([, seen, expected]) => seen !== expected)
    .map(([what, seen, expected]) => `${what}: ${seen}, expected ${expected}`);
}
