import type { Attempt } from "../../src/domain/attempt.ts";
import { rateWindowMs, tokenReturnMs } from "../../src/domain/rate-limit.ts";
import { decodeHeld } from "../../src/pipeline/deliver/held/held-codec.ts";
import { disturbanceMs, isUndisturbed } from "./sim-plan.ts";
import { runOf } from "./sim-history.ts";
import type { History, Story } from "./sim-history.ts";
import { DURABLE_MS, NETWORK_MS, SLOW_CONNECT_MS } from "./sim-facts.ts";
import type { Facts } from "./sim-facts.ts";

/** I9: the time from a durable event to its first try at a healthy destination. */
const FAST_MS = 250;
/** The slowest healthy receiver, network included. */
const SLOW_ANSWER_MS = 1_500 + NETWORK_MS;
/** How early a try may be made, as a tolerance. */
const EARLY_MS = 1;
/** A frozen owner may put tasks off by a limit that has changed meanwhile; those are looked at again after this long. */
const SECOND_LOOK_MS = 31_000;
const RESUME_MS = 60_000;
/** The longest wait in a lane: 2 s when early, and 2 s queued. After it a try may take its whole timeout. */
const LANE_WAIT_MS = 2 * 2_000;
const SENT_AFTER_SLOT_MS = 100;
/** From a record's last step to the commit that passes it; a write that nothing waits for comes 50 ms later. */
const COMMIT_MS = 650;

/** Checks the promises on timing. Some hold only where nothing disturbed. */
export function checkTimes(story: Story, facts: Facts, found: string[]): void {
  checkEarly(story, facts, found);
  checkFast(story, facts, found);
  if (!isUndisturbed(story.plan)) return;
  checkPinned(story, found);
  checkDurable(facts, found);
  checkResumed(story, facts, found);
  checkDrained(story, found);
}

/**
 * Checks that a retry, or a try that the limit put off, is made no earlier than a row durable by then says. What the limit put
 * off may also go on when the destination changes: at once where the limit leaves room.
 */
function checkEarly({ plan, world, histories }: Story, { requests }: Facts, found: string[]): void {
  if (plan.skewMs > 0) return;
  const dues = new Map<string, { readonly knownAtMs: number; readonly dueAtMs: number }[]>();
  for (let partition = 0; partition < world.store.partitions; partition += 1) {
    const records = world.store.records("attempts", partition);
    for (const [index, outcome] of world.outcomesOf(partition).entries()) {
      if (outcome.kind !== "attempt" || outcome.attempt.nextRetryAtMs === null) continue;
      const { eventId, destinationId, run, status, tryNumber, nextRetryAtMs } = outcome.attempt;
      const next = status === "rate_limited" ? tryNumber : tryNumber + 1;
      const key = `${runOf(eventId, destinationId, run)}|${next}`;
      const list = dues.get(key) ?? [];
      const knownAtMs = records[index]!.appendedAtMs;
      const history = status === "rate_limited" ? histories.get(destinationId) : undefined;
      const changedAtMs = changesOf(history).filter((atMs) => atMs > knownAtMs - SECOND_LOOK_MS);
      list.push({ knownAtMs, dueAtMs: Math.min(nextRetryAtMs, ...changedAtMs) });
      dues.set(key, list);
    }
  }
  for (const [run, seen] of requests)
    for (const { attempt, atMs } of seen) {
      // After a crash a try may have two rows: the earlier of their times counts.
      const known = (dues.get(`${run}|${attempt}`) ?? []).filter(
        ({ knownAtMs }) => knownAtMs < atMs - 50,
      );
      if (known.length > 0 && known.every(({ dueAtMs }) => atMs < dueAtMs - EARLY_MS))
        found.push(`early: ${run} try ${attempt} at ${atMs}, due at ${known[0]!.dueAtMs}`);
    }
}

function changesOf(history: History | undefined): number[] {
  if (history === undefined) return [];
  return [...history.limits.map(({ fromMs }) => fromMs), ...history.paused.flat()];
}

/** Checks that other destinations do not delay the fast one; only a disturbance or a full process may. */
function checkFast(story: Story, { requests }: Facts, found: string[]): void {
  const { plan, events, disturbedAt } = story;
  if (plan.logFaults || plan.unknownAppends) return;
  const fast = [...story.histories.values()].find((history) => history.isFast);
  if (fast === undefined) return;
  const lastsMs = disturbanceMs(plan);
  // Large bodies queued in lanes may use up the budget, a thousandth of the real one; those being sent never do.
  const maxMs = plan.largeBytes > 0 ? LANE_WAIT_MS : FAST_MS;
  for (const event of events) {
    if (!event.signatureValid || event.endpointId !== fast.endpointId) continue;
    const first = requests.get(runOf(event.id, fast.id, "event"))?.[0];
    const atMs = first?.atMs ?? Number.POSITIVE_INFINITY;
    const disturbed = disturbedAt.some(
      (time) => time >= event.receivedAtMs - lastsMs && time <= atMs,
    );
    if (disturbed || atMs - event.receivedAtMs <= maxMs) continue;
    if (first === undefined || !isFull(story, first.process, atMs - FAST_MS))
      found.push(`I9: ${event.id} waited ${atMs - event.receivedAtMs} ms for ${fast.id}`);
  }
}

/**
 * Tells whether a process has as many tries in flight as it may, and the half that hanging receivers can never take is with
 * slow but healthy ones: only then does a fast one have to wait.
 */
function isFull({ plan, world }: Story, process: string, atMs: number): boolean {
  const underway = world.seen.filter(
    (seen) =>
      seen.process === process &&
      seen.atMs <= atMs &&
      seen.answeredAtMs !== null &&
      seen.answeredAtMs > atMs,
  );
  const slow = underway.filter((seen) => (seen.answeredAtMs ?? 0) - seen.atMs <= SLOW_ANSWER_MS);
  const most = plan.delivery.maxInFlight ?? Infinity;
  return underway.length >= most && slow.length * 2 >= most;
}

/** Checks that a record holds the watermark for at most the time of one try and a little, never of a queue of them. */
function checkPinned({ plan, world }: Story, found: string[]): void {
  const boundMs = LANE_WAIT_MS + plan.timeoutMs + COMMIT_MS;
  const commits = world.store.commits.filter(({ group }) => group === "delivery");
  for (const topic of ["events", "tasks"] as const)
    for (let partition = 0; partition < world.store.partitions; partition += 1) {
      const own = commits.filter((one) => one.topic === topic && one.partition === partition);
      let at = 0;
      for (const { offset, appendedAtMs } of world.store.records(topic, partition)) {
        while (at < own.length && own[at]!.offset <= offset) at += 1;
        const tookMs = (own[at]?.atMs ?? Number.POSITIVE_INFINITY) - appendedAtMs;
        if (tookMs > boundMs)
          found.push(`I9: ${topic}/${partition} ${offset} held its partition for ${tookMs} ms`);
      }
    }
}

function checkDurable({ requests, endedAt }: Facts, found: string[]): void {
  for (const [run, seen] of requests)
    for (const { attempt, answeredAtMs } of seen) {
      const ended = endedAt.get(`${run}|${attempt}`);
      if (answeredAtMs !== null && ended !== undefined && ended > answeredAtMs + DURABLE_MS)
        found.push(`I8: the end of ${run} try ${attempt} took ${ended - answeredAtMs} ms`);
    }
}

/** Checks that held tasks go on within 60 s of the resume. */
function checkResumed(story: Story, { requests }: Facts, found: string[]): void {
  const { world, histories } = story;
  for (const record of world.store.all("held")) {
    const entry = decodeHeld(record.value);
    if (entry.kind !== "task") continue;
    const { event, destinationId, run, tryNumber } = entry.task;
    const history = histories.get(destinationId)!;
    const isPlain = history.wasAlwaysOk && history.limits.every(({ max }) => max === null);
    const pause = history.paused.find(
      ([from, to]) => from <= record.appendedAtMs && record.appendedAtMs <= to + 100,
    );
    if (!isPlain || pause === undefined) continue;
    const [, resumedAtMs] = pause;
    const again = history.paused.some(([from]) => from > resumedAtMs);
    if (again || history.deletedAtMs !== null) continue;
    const went = requests
      .get(runOf(event.id, destinationId, run))
      ?.some(({ attempt, atMs }) => attempt >= tryNumber && atMs <= resumedAtMs + RESUME_MS);
    if (went !== true)
      found.push(`held ${event.id} ${destinationId} did not go on after ${resumedAtMs}`);
  }
}

/** Checks that a backlog drains at 90 % of the limit at least, and that its tasks are not put off again and again. */
function checkDrained(story: Story, found: string[]): void {
  for (const { id, limits, wasAlwaysOk, wasAlwaysActive } of story.histories.values()) {
    const [limit] = limits;
    if (!wasAlwaysOk || !wasAlwaysActive || limit === undefined) continue;
    const { max, window } = limit;
    if (max === null || window === null) continue;
    const untilMs = limits[1]?.fromMs ?? Number.POSITIVE_INFINITY;
    const rows = story.world.attempts().filter((row) => row.destinationId === id);
    const deferred = rows.filter((row) => row.status === "rate_limited");
    const putOff = new Map<string, number>();
    for (const { eventId, run } of deferred)
      putOff.set(`${eventId}|${run}`, (putOff.get(`${eventId}|${run}`) ?? 0) + 1);
    const most = Math.max(0, ...putOff.values());
    // A try waiting for its connection makes others miss their slots.
    if (most > (story.plan.slowConnects ? 12 : 4))
      found.push(`I4: a task of ${id} was put off ${most} times`);
    // The slots of waiting tasks follow each other without gaps.
    const spanMs = tokenReturnMs(window);
    // A try that waits for its connection is sent that much after its slot.
    const lateMs = SENT_AFTER_SLOT_MS + (story.plan.slowConnects ? SLOW_CONNECT_MS : 0);
    const times = story.world
      .requestsTo(id)
      .map(({ atMs }) => atMs)
      .filter((atMs) => atMs < untilMs);
    for (const [fromMs, toMs] of backlogs(deferred, untilMs)) {
      const windows = Math.floor((toMs - fromMs) / spanMs);
      const made = times.filter((atMs) => atMs >= fromMs && atMs <= toMs + lateMs).length;
      if (windows >= 2 && made < 0.9 * windows * max * (rateWindowMs(window) / spanMs) - 1)
        found.push(`I4: ${id} drained ${made} in ${windows} windows of ${max}`);
    }
  }
}

/** Returns the periods during which tasks waited for the limit. */
function backlogs(deferred: readonly Attempt[], untilMs: number): [fromMs: number, toMs: number][] {
  const found: [number, number][] = [];
  for (const { attemptedAtMs, nextRetryAtMs } of deferred) {
    const toMs = nextRetryAtMs ?? 0;
    if (toMs >= untilMs) continue;
    const last = found.at(-1);
    if (last !== undefined && attemptedAtMs <= last[1]) last[1] = Math.max(last[1], toMs);
    else found.push([attemptedAtMs, toMs]);
  }
  return found;
}
