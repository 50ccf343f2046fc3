import type { Attempt } from "../../src/domain/attempt.ts";
import { scheduleLengthMs } from "../../src/domain/backoff.ts";
import { rateWindowMs } from "../../src/domain/rate-limit.ts";
import { DEFAULT_DELIVERY_OPTIONS } from "../../src/pipeline/deliver/delivery-options.ts";
import { DURABLE_AGAIN_MS, DURABLE_MS, gather, NETWORK_MS, SLOW_CONNECT_MS } from "./sim-facts.ts";
import type { Facts } from "./sim-facts.ts";
import { checkTimes } from "./sim-invariants-time.ts";
import { expectedRuns } from "./sim-history.ts";
import type { Story } from "./sim-history.ts";
import type { SeenRequest } from "./sim-world.ts";

/** An end may become durable while the next request is already on its way, for at most this long. */
const CROSSING_MS = 50;

/** Returns what a seed's story violates; empty when all promises held. */
export function violationsOf(story: Story): string[] {
  const found: string[] = [];
  if (story.stuck !== null) found.push(story.stuck);
  const facts = gather(story);
  checkEnds(story, facts, found);
  checkLimits(story, found);
  checkRows(story, facts, found);
  checkDuplicates(story, facts, found);
  checkPaused(story, found);
  checkTimes(story, facts, found);
  for (const { message, fields } of story.world.errors)
    found.push(`error logged: ${message} ${JSON.stringify(fields)}`);
  return found;
}

/** Checks I2: what begins ends, once, and for a reason; nothing pins a partition forever. */
function checkEnds(story: Story, { rows, requests }: Facts, found: string[]): void {
  const { world } = story;
  const expected = expectedRuns(story);
  for (const [run, attempts] of rows) {
    const end = attempts.find(({ status }) => status === "delivered" || status === "dead");
    if (end === undefined) continue;
    if (!expected.has(run)) found.push(`I2: ended but never begun: ${run}`);
    const after = attempts.find(
      ({ status, tryNumber }) => status !== "rate_limited" && tryNumber > end.tryNumber,
    );
    if (after !== undefined && !wasFrozen(story, requests.get(run) ?? [], end.tryNumber))
      found.push(`I2: ${run} went on to try ${after.tryNumber} after its end`);
    if (end.status === "dead") checkDead(story, end, found);
  }
  for (const run of world.ended().keys())
    if (!rows.get(run)?.some(({ status }) => status === "delivered" || status === "dead"))
      found.push(`I2: ${run} has ended, and its rows say that it goes on`);
  for (let partition = 0; partition < world.store.partitions; partition += 1)
    for (const topic of ["events", "tasks"] as const) {
      const committed = world.store.committed("delivery", topic, partition)?.offset ?? 0;
      const end = world.store.endOffset(topic, partition);
      if (story.stuck === null && committed < end)
        found.push(`I2: not committed: ${topic}/${partition} ${committed} of ${end}`);
    }
}

/** Tells whether its process was frozen when the answer came or before the end was durable: another may have taken the try for lost. */
function wasFrozen({ freezes }: Story, seen: readonly SeenRequest[], tryNumber: number): boolean {
  return seen.some(
    ({ attempt, process, answeredAtMs }) =>
      attempt === tryNumber &&
      answeredAtMs !== null &&
      freezes.some(
        (freeze) =>
          freeze.process === process &&
          freeze.fromMs - DURABLE_MS <= answeredAtMs &&
          answeredAtMs <= freeze.toMs,
      ),
  );
}

function checkDead(story: Story, end: Attempt, found: string[]): void {
  const { id, eventId, destinationId, responseBody, httpStatus, tryNumber } = end;
  const history = story.histories.get(destinationId)!;
  const config = story.world.destinations.get(destinationId);
  const begunAtMs =
    end.run === "event"
      ? end.eventReceivedAtMs
      : story.replays.find((replay) => replay.run === end.run)!.atMs;
  const skewMs = story.plan.skewMs;
  if (responseBody.includes("deleted")) {
    if (history.deletedAtMs === null) found.push(`I2: ${id} of ${destinationId} is not deleted`);
  } else if (responseBody.includes("circuit open")) {
    const scheduleMs = scheduleLengthMs({
      backoff: config?.retryBackoff ?? "fixed",
      retryMaxAttempts: config?.retryMaxAttempts ?? 0,
      baseMs: story.plan.delivery.retryBaseMs ?? 0,
      timeoutMs: story.plan.timeoutMs,
    });
    if (end.attemptedAtMs + skewMs < begunAtMs + scheduleMs)
      found.push(`I2: ${eventId} ended behind an open circuit before its schedule was over`);
  } else if (responseBody.includes("retention")) {
    if (end.attemptedAtMs < begunAtMs + DEFAULT_DELIVERY_OPTIONS.retentionMs)
      found.push(`I2: ${eventId} ended by the retention too early`);
  } else if (
    httpStatus !== 410 &&
    config !== undefined &&
    tryNumber !== config.retryMaxAttempts + 1
  )
    found.push(
      `I2: ${eventId} at ${destinationId} ended dead on try ${tryNumber} with ${config.retryMaxAttempts} retries`,
    );
}

/** Checks I4: no sliding window of the receiver's own clock holds more than the maximum. */
function checkLimits(story: Story, found: string[]): void {
  for (const [id, { limits }] of story.histories)
    for (const [index, { fromMs, max, window }] of limits.entries()) {
      if (max === null || window === null) continue;
      const untilMs = limits[index + 1]?.fromMs ?? Number.POSITIVE_INFINITY;
      const underwayMs = NETWORK_MS + (index > 0 && story.plan.slowConnects ? SLOW_CONNECT_MS : 0);
      // Requests on their way when the limit changed belong to the previous limit.
      const times = story.world
        .requestsTo(id)
        .map((seen) => seen.atMs)
        .filter((atMs) => atMs >= fromMs + underwayMs && atMs < untilMs);
      for (let at = max; at < times.length; at += 1)
        if (times[at]! - times[at - max]! < rateWindowMs(window))
          found.push(
            `I4: ${id} saw ${max + 1} requests in ${times[at]! - times[at - max]!} ms at ${times[at]}, limit ${max} per ${window}`,
          );
    }
}

/** Checks I7: a row for each request, a request for each row of a request, and no gaps. */
function checkRows(story: Story, { rows, requests }: Facts, found: string[]): void {
  for (const [run, seen] of requests) {
    const tries = new Set(
      rows
        .get(run)
        ?.filter(({ status }) => status !== "rate_limited")
        .map(({ tryNumber }) => tryNumber),
    );
    for (const request of seen)
      if (!tries.has(request.attempt) && !wasLostInCrash(story, request))
        found.push(`I7: no row for ${run} try ${request.attempt}`);
  }
  for (const [run, attempts] of rows) {
    const tries = new Set<number>();
    for (const { tryNumber, status, httpStatus } of attempts) {
      if (status !== "rate_limited") tries.add(tryNumber);
      if (httpStatus > 0 && !requests.get(run)?.some(({ attempt }) => attempt === tryNumber))
        found.push(`I7: a row without a request: ${run} try ${tryNumber}`);
    }
    if (tries.size > 0 && Math.max(...tries) !== tries.size)
      found.push(`I7: gap in ${run}: ${[...tries].join(" ")}`);
  }
}

/** Tells whether a request was in flight when its process died and the next owner may no longer send to its destination. */
function wasLostInCrash(story: Story, { destinationId, answeredAtMs }: SeenRequest): boolean {
  if (story.histories.get(destinationId)!.wasAlwaysActive) return false;
  const durableMs = story.plan.logFaults ? DURABLE_AGAIN_MS : DURABLE_MS;
  return (
    answeredAtMs === null ||
    story.disturbedAt.some((time) => time >= answeredAtMs && time <= answeredAtMs + durableMs)
  );
}

/** Checks I8: a try is requested again only where its end was not durable, and only after a disturbance. */
function checkDuplicates(story: Story, { requests, endedAt }: Facts, found: string[]): void {
  if (story.plan.unknownAppends) return;
  for (const [run, seen] of requests) {
    const firstOf = new Map<number, number>();
    for (const { attempt, atMs } of seen) {
      const key = `${run}|${attempt}`;
      const ended = endedAt.get(key);
      if (ended !== undefined && ended < atMs - CROSSING_MS && !sentByFrozen(story, seen, attempt))
        found.push(`I8: ${key} sent at ${atMs}, its end was durable at ${ended}`);
      const first = firstOf.get(attempt);
      firstOf.set(attempt, atMs);
      if (first === undefined) continue;
      // The first request may have waited for its connection before the receiver saw it.
      const startedMs = first - CROSSING_MS - (story.plan.slowConnects ? SLOW_CONNECT_MS : 0);
      const explained = story.disturbedAt.some((time) => time >= startedMs && time <= atMs);
      if (!explained) found.push(`I8: ${key} sent at ${first} and ${atMs}, undisturbed`);
    }
  }
}

/** Tells whether the first sender was frozen around the request: others could not know how it would end. */
function sentByFrozen(story: Story, seen: readonly SeenRequest[], attempt: number): boolean {
  const first = seen.find((one) => one.attempt === attempt)!;
  return story.freezes.some(
    ({ process, fromMs, toMs }) =>
      process === first.process &&
      fromMs - NETWORK_MS <= (first.answeredAtMs ?? toMs) &&
      first.atMs <= toMs + NETWORK_MS,
  );
}

function checkPaused({ world, histories }: Story, found: string[]): void {
  for (const [id, { paused, deletedAtMs }] of histories)
    for (const { atMs, eventId } of world.requestsTo(id)) {
      const during = paused.find(([from, to]) => atMs > from + NETWORK_MS && atMs < to);
      if (during !== undefined) found.push(`paused ${id} was sent ${eventId} at ${atMs}`);
      if (deletedAtMs !== null && atMs > deletedAtMs + NETWORK_MS)
        found.push(`deleted ${id} was sent ${eventId} at ${atMs}`);
    }
}
