import { groupBy } from "../../../src/domain/group-by.ts";
import type { DumpedAttempt, Ledgers, ReceivedRequest, Violation } from "./ledgers.ts";

/**
 * Checks I7: every try that a receiver saw has its row, every answer in a row was given by a receiver, and no number is
 * skipped. A try made twice may have two rows, but never more rows with an answer than requests.
 */
export function* checkAccounts({ received, dump }: Ledgers): Iterable<Violation> {
  const rowsOf = groupBy(dump.attempts.filter(isTry), deliveryOf);
  const requestsOf = groupBy(received, deliveryOf);
  for (const delivery of new Set([...rowsOf.keys(), ...requestsOf.keys()]))
    for (const what of accountsOf(rowsOf.get(delivery) ?? [], requestsOf.get(delivery) ?? []))
      yield { invariant: "I7", what: `${delivery}: ${what}` };
}

function* accountsOf(
  rows: readonly DumpedAttempt[],
  requests: readonly ReceivedRequest[],
): Iterable<string> {
  const recorded = new Set(rows.map(({ tryNumber }) => tryNumber));
  const tried = new Set(requests.map(({ tryNumber }) => tryNumber));
  for (const tryNumber of tried)
    if (!recorded.has(tryNumber)) yield `try ${tryNumber} was seen, not recorded`;
  const numbers = [...recorded].toSorted((a, b) => a - b);
  if (numbers.some((number, index) => number !== index + 1))
    yield `tries are numbered ${numbers.join()}`;
  for (const tryNumber of numbers) {
    const answers = rows.filter((row) => row.tryNumber === tryNumber && row.httpStatus !== 0);
    const seen = requests.filter((request) => request.tryNumber === tryNumber);
    if (answers.length > seen.length)
      yield `try ${tryNumber} has ${answers.length} rows with an answer, a receiver saw ${seen.length}`;
  }
  const ends = rows.filter(({ status }) => status === "delivered" || status === "dead");
  const deliveries = ends.filter(({ status }) => status === "delivered");
  const taken = requests.filter(({ status }) => status !== null && status < 300);
  if (deliveries.length > taken.length)
    yield `recorded as delivered ${deliveries.length} times, receivers took ${taken.length}`;
  const repeated = requests.length - tried.size;
  if (ends.length > 1 + repeated)
    yield `ended ${ends.length} times, ${repeated} requests came again`;
}

const isTry = ({ status }: DumpedAttempt): boolean => status !== "rate_limited";

const deliveryOf = (of: { readonly eventId: string; readonly destinationId: string }): string =>
  `${of.eventId} ${of.destinationId}`;
