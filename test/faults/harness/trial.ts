import { mkdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { waitFor } from "../../support/wait-for.ts";
import { makeRoutes, type Arena, type DestinationPlan, type Routes } from "./arena.ts";
import { checkInvariants, findDuplicates, type Allowances } from "./check-invariants.ts";
import { dumpApi } from "./dump.ts";
import { nowMs, type FaultWindow, type Ledgers, type Violation } from "./ledgers.ts";
import { makeSeededRandom, type SeededRandom } from "./random.ts";
import { countAnswers, startSender, type Sender } from "./sender.ts";

export interface TrialOptions {
  readonly name: string;
  readonly seed: number;
  readonly destinations: readonly (readonly DestinationPlan[])[];
  readonly perSecond: number;
  readonly senders: number;
  readonly allowances: Allowances;
  /** How many accepted events are read one by one through the API. */
  readonly sampleSize: number;
  /** How long after the last fault everything accepted may take to end. */
  readonly quietWithinMs: number;
  /** Disturbs the system while the sender sends; the sender is stopped when it resolves. */
  readonly disturb: (trial: Trial) => Promise<void>;
}

export interface Trial {
  readonly arena: Arena;
  readonly sender: Sender;
  readonly routes: Routes;
  readonly random: SeededRandom;
  readonly faults: FaultWindow[];
}

export interface TrialResult {
  readonly violations: readonly Violation[];
  readonly summary: string;
  readonly ledgers: Ledgers;
}

const NO_DUMP: Ledgers["dump"] = { events: [], attempts: [], payloads: new Map() };
const CHECKS = 4;
const BETWEEN_CHECKS_MS = 5_000;
const PROGRESS_MS = 60_000;

/** Sends, disturbs, waits for quiet and compares the ledgers. A failing trial prints its seed and keeps its ledgers. */
export async function runTrial(arena: Arena, options: TrialOptions): Promise<TrialResult> {
  const { name, seed } = options;
  const random = makeSeededRandom(seed);
  const faults: FaultWindow[] = [];
  const routes = await makeRoutes(arena, options.destinations);
  const receivedBefore = arena.receiver.received.length;
  const own = new Set(routes.destinations.map(({ id }) => id));
  const startedMs = nowMs();
  await using sender = startSender({
    routes: routes.sender,
    perSecond: options.perSecond,
    senders: options.senders,
    random: makeSeededRandom(seed + 1),
  });
  const ledgersNow = (dump: Ledgers["dump"]): Ledgers => ({
    sent: sender.sent,
    received: arena.receiver.received
      .slice(receivedBefore)
      .filter(({ destinationId }) => own.has(destinationId)),
    faults,
    destinations: routes.destinations,
    dump,
  });
  const progress = setInterval(() => {
    const current = faults.at(-1)?.name ?? "none yet";
    console.log(`${name}: ${sender.acceptedCount} events, ${faults.length} faults: ${current}`);
  }, PROGRESS_MS);
  try {
    await options.disturb({ arena, sender, routes, random, faults });
    await sender.stop();
    const sentForMs = nowMs() - startedMs;
    const quietMs = await waitUntilQuiet(arena, ledgersNow, options.quietWithinMs);
    const { ledgers, violations } = await settleAndCheck(arena, options, startedMs, ledgersNow);
    const summary = summarize(ledgers, sentForMs, quietMs);
    if (violations.length > 0) await keep(name, seed, ledgers, violations, arena);
    return { violations, summary, ledgers };
  } catch (error) {
    await sender.stop();
    // The attempts, if any, show what became of missing deliveries.
    const dump = await dumpAll(arena, startedMs, []).catch(() => NO_DUMP);
    await keep(name, seed, ledgersNow(dump), [], arena, String(error));
    throw error;
  } finally {
    clearInterval(progress);
  }
}

/** Checks a few times: the last records may still be on their way into the event store. */
async function settleAndCheck(
  arena: Arena,
  { allowances, sampleSize }: TrialOptions,
  startedMs: number,
  ledgersNow: (dump: Ledgers["dump"]) => Ledgers,
): Promise<{ readonly ledgers: Ledgers; readonly violations: readonly Violation[] }> {
  for (let check = 1; ; check += 1) {
    const accepted = ledgersNow(NO_DUMP)
      .sent.filter(({ status }) => status === 200)
      .flatMap(({ eventId }) => (eventId === null ? [] : [eventId]));
    const every = Math.max(1, Math.ceil(accepted.length / sampleSize));
    const sampleIds = accepted.filter((_, index) => index % every === 0);
    const dump = await dumpAll(arena, startedMs, sampleIds);
    const ledgers = ledgersNow(dump);
    const violations = checkInvariants(ledgers, allowances);
    if (violations.length === 0 || check === CHECKS) return { ledgers, violations };
    await new Promise((resolve) => setTimeout(resolve, BETWEEN_CHECKS_MS));
  }
}

function dumpAll(
  arena: Arena,
  startedMs: number,
  sampleIds: readonly string[],
): Promise<Ledgers["dump"]> {
  return dumpApi({
    client: arena.cluster.client,
    clickhouseUrl: arena.clickhouseUrl,
    fromMs: startedMs - 1_000,
    toMs: nowMs() + 1_000,
    sampleIds,
  });
}

/** Waits until every delivery that must succeed has, and no group has records left. @returns how long that took, ms */
async function waitUntilQuiet(
  arena: Arena,
  ledgersNow: (dump: Ledgers["dump"]) => Ledgers,
  withinMs: number,
): Promise<number> {
  const fromMs = performance.now();
  const missing = (): number => {
    const { sent, received, destinations } = ledgersNow(NO_DUMP);
    const taken = new Set(
      received
        .filter(({ status }) => status !== null && status < 300)
        .map(({ eventId, destinationId }) => `${eventId} ${destinationId}`),
    );
    let count = 0;
    for (const { status, eventId, endpointId } of sent)
      if (status === 200)
        for (const one of destinations)
          if (
            one.endpointId === endpointId &&
            !one.mayEndDead &&
            !taken.has(`${eventId} ${one.id}`)
          )
            count += 1;
    return count;
  };
  await waitFor("all deliveries", () => missing() === 0, withinMs, 500).catch(
    async (error: unknown) => {
      const left = JSON.stringify(await readLag(arena));
      throw new Error(`${missing()} deliveries are missing, lag is ${left}`, { cause: error });
    },
  );
  let lag: Readonly<Record<string, number>> = {};
  await waitFor(
    "lag back to zero",
    async () => {
      lag = await readLag(arena);
      return Object.values(lag).every((records) => records === 0);
    },
    Math.max(30_000, withinMs - (performance.now() - fromMs)),
    500,
  ).catch((error: unknown) => {
    throw new Error(`lag is left: ${JSON.stringify(lag)}`, { cause: error });
  });
  return performance.now() - fromMs;
}

/** Reads the lag by process, group and topic from `/metrics`; a process without groups shows none. */
export async function readLag({ cluster }: Arena): Promise<Readonly<Record<string, number>>> {
  const lags: Record<string, number> = {};
  for (const [name, text] of await readMetrics(cluster, "delivery"))
    for (const [, labels = "", value] of text.matchAll(/^relay_log_lag_records\{(.*)\} (\S+)$/gm))
      lags[`${name} ${labels}`] = Number(value);
  return lags;
}

/** Reads the current `/metrics` of each process of a role. */
export async function readMetrics(
  { nodes }: Arena["cluster"],
  role: "ingest" | "delivery",
): Promise<readonly (readonly [name: string, text: string])[]> {
  const ofRole = [...nodes].filter(([name]) => name.startsWith(role));
  return Promise.all(
    ofRole.map(async ([name, { ports }]) => {
      const answer = await fetch(`http://127.0.0.1:${ports.ops}/metrics`);
      return [name, await answer.text()] as const;
    }),
  );
}

function summarize(ledgers: Ledgers, sentForMs: number, quietMs: number): string {
  const { sent, received, faults } = ledgers;
  const accepted = sent.filter(({ status }) => status === 200).length;
  const duplicates = findDuplicates(received).length;
  const dead = ledgers.dump.attempts.filter(({ status }) => status === "dead").length;
  return [
    `${accepted} events accepted in ${Math.round(sentForMs / 1_000)} s`,
    `answers ${JSON.stringify(countAnswers(sent))}`,
    `${faults.length} faults`,
    `${received.length} requests at the receiver, ${duplicates} of them repeated`,
    `${ledgers.dump.attempts.length} attempts recorded, ${dead} dead`,
    `quiet after ${Math.round(quietMs / 1_000)} s`,
    `faults: ${faults.map(({ name }) => name).join(", ")}`,
  ].join("; ");
}

async function keep(
  name: string,
  seed: number,
  ledgers: Ledgers,
  violations: readonly Violation[],
  arena: Arena,
  ...reasons: readonly string[]
): Promise<void> {
  const dir = join(process.env["FAULTS_KEEP"] ?? tmpdir(), `relay-faults-${name}-${seed}`);
  await mkdir(dir, { recursive: true });
  const write = (file: string, value: unknown) =>
    writeFile(join(dir, `${file}.json`), JSON.stringify(value, null, 1));
  await write("sent", ledgers.sent);
  await write("received", ledgers.received);
  await write("faults", ledgers.faults);
  await write("destinations", ledgers.destinations);
  await write("events", ledgers.dump.events);
  await write("attempts", ledgers.dump.attempts);
  await write("violations", violations);
  for (const [node, relay] of arena.cluster.nodes)
    await writeFile(join(dir, `${node}.log`), relay.output());
  const kinds = violations.slice(0, 5).map(({ invariant, what }) => `${invariant}: ${what}`);
  const line = `FAILED with seed ${seed} (FAULTS_SEED=${seed} repeats it); ledgers in ${dir}`;
  console.error([line, ...reasons, ...kinds].join("\n  "));
}

/** Returns the seed of this run: FAULTS_SEED, else a new one, which it prints. */
export function chooseSeed(): number {
  const given = process.env["FAULTS_SEED"];
  const seed = given === undefined ? Math.floor(Math.random() * 1_000_000) : Number(given);
  console.log(`FAULTS_SEED=${seed}`);
  return seed;
}
