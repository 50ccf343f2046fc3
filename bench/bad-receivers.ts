/**
 * What misbehaving receivers cost the others, with the embedded log and the real sender; the receivers run in processes
 * of their own. `npx tsx bench/bad-receivers.ts [rounds] [case ...]` prints each figure beside the same one without them,
 * round by round. Cases are `crowd` (1.), `apart` and `together` (2.); the results of those that are not asked for stay as they were.
 *
 *   1. 2,000 destinations at full speed for a minute; then 1,000 of them accept connections and never answer.
 *   2. 42 destinations at a steady rate; then with 8 more that behave, which tells what more events cost; then with 8 more
 *      of which one never answers, one drips a byte a second, one sends a gigabyte, one redirects, three have bad
 *      certificates and one speaks no TLS.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { once } from "node:events";
import { constants, loadavg, setPriority } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { keepCollectorAside } from "../src/app/garbage-collection.ts";
import { makeDeliveryRig } from "../test/support/delivery-rig.ts";
import {
  serveHostileReceivers,
  type HostileReceivers,
  type Trespasses,
} from "../test/support/hostile-receivers.ts";
import { startAnsweringReceivers } from "./lib/answering-receivers.ts";
import { startChild } from "../test/support/child-process.ts";
import { compileForBench } from "./lib/compile.ts";
import { endIfHelp, endWithUsage } from "./lib/read-options.ts";
import { percentile, spreadOf } from "./lib/stats.ts";

const GOOD_PORTS = 50;
const MANY = 2_000;
const MAX_OUTSTANDING = 2_000;
const CROWD_WARM_UP_MS = 3_000;
const CROWD_MS = 57_000;
const FEW = 42;
/** The log is trimmed every half minute: once in this time. */
const STEADY_MS = 30_000;
/** Until then the p99 beside failing receivers is some 0.7 ms higher: see "Whether it stays so" in bench/what-was-tried.md. */
const STEADY_WARM_UP_MS = 40_000;
/** How often each destination gets an event: 840 a second in total for the 42 that behave. */
const STEADY_PERIOD_MS = 50;
const STEADY_STEP_MS = 5;

/** Each destination has its own endpoint, and they get events in turn; or all share one, so each event goes to all at once. */
const SHAPES = ["apart", "together"] as const;
type Shape = (typeof SHAPES)[number];

/** Good and bad receivers do not share a process, as in the real world. */
interface Receivers extends Omit<HostileReceivers, "good"> {
  readonly good: readonly string[];
}

interface SteadyResult {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly grownMegabytes: number;
}

/** What is beside the 42: nothing, eight that behave, or eight that do not. */
const COMPANIES = ["none", "good", "bad"] as const;
type Company = (typeof COMPANIES)[number];
type SteadyRound = Readonly<Record<Company, SteadyResult>>;

const [, , role, ...args] = process.argv;
if (role === "good") process.send?.(await startGood());
else if (role === "bad") {
  // In reality they run on other machines: their work must not take cores from the processes being measured.
  setPriority(constants.priority.PRIORITY_LOW);
  await serveHostileReceivers();
} else if (role === "crowd" || role === "apart" || role === "together") {
  keepCollectorAside();
  const receivers = JSON.parse(args[0]!) as Receivers;
  const company = args[1] as Company;
  process.send?.(
    role === "crowd"
      ? await measureCrowd(receivers, company === "bad")
      : await measureSteady(receivers, company, role),
  );
  process.exit(0);
} else await runBench(role === undefined ? 5 : Number(role), args);

async function runBench(rounds: number, cases: readonly string[]): Promise<void> {
  const all = ["crowd", ...SHAPES];
  const usage = `npx tsx bench/bad-receivers.ts [rounds, default 5] [${all.join("|")} ...]`;
  endIfHelp(usage);
  if (!(rounds >= 1) || cases.some((name) => !all.includes(name)))
    return endWithUsage(usage, "the rounds are a number, the others names");
  const isAsked = (name: string): boolean => cases.length === 0 || cases.includes(name);
  const self = join(compileForBench(), "bench/bad-receivers.js");
  await using good = await startChild<string[]>(self, ["good"]);
  await using bad = await startChild<HostileReceivers>(self, ["bad"]);
  const receivers = JSON.stringify({ ...bad.ready, good: good.ready } satisfies Receivers);
  const measure = async <Result>(kind: string, company: Company): Promise<Result> =>
    (await startChild<Result>(self, [kind, receivers, company])).ready;
  const kept: number[] = [];
  const steady: Record<Shape, SteadyRound[]> = {
    apart: [],
    together: [],
  };
  for (let round = 1; round <= rounds; round += 1) {
    if (isAsked("crowd")) {
      const without = await measure<number>("crowd", "good");
      const beside = await measure<number>("crowd", "bad");
      kept.push(beside / without);
      console.log(
        `round ${round}: 1,000 of 2,000 hang: the others get ${beside.toFixed(0)}/s, ${without.toFixed(0)}/s when none does (${(beside / without).toFixed(2)}); load ${loadavg()[0]?.toFixed(1)}`,
      );
    }
    for (const shape of SHAPES.filter(isAsked)) {
      const measured = {} as Record<Company, SteadyResult>;
      for (const company of COMPANIES)
        measured[company] = await measure<SteadyResult>(shape, company);
      steady[shape].push(measured);
      const figures = COMPANIES.map((company) => {
        const { p50Ms, p99Ms, grownMegabytes } = measured[company];
        return `${company} ${p50Ms.toFixed(1)} and ${p99Ms.toFixed(1)} ms, +${grownMegabytes.toFixed(0)} MB`;
      });
      console.log(
        `round ${round}, p50, p99 and memory of 42 ${shape}, beside them ${figures.join("; ")}; load ${loadavg()[0]?.toFixed(1)}`,
      );
    }
  }
  bad.process.send("report");
  const [trespasses] = (await once(bad.process, "message")) as [Trespasses];
  const summary = {
    ...(isAsked("crowd") && { throughputKept: spreadOf(kept) }),
    ...(isAsked("apart") && { apart: summarizeSteady(steady.apart) }),
    ...(isAsked("together") && { together: summarizeSteady(steady.together) }),
    ...(SHAPES.some(isAsked) && trespasses),
  };
  console.log(summary);
  const file = fileURLToPath(new URL("results/bad-receivers.json", import.meta.url));
  const others: unknown = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {};
  writeFileSync(file, `${JSON.stringify(Object.assign({}, others, summary), null, 2)}\n`);
}

function summarizeSteady(rounds: readonly SteadyRound[]) {
  const of = (company: Company) => ({
    p99Ms: spreadOf(rounds.map((round) => round[company].p99Ms)),
    grownMegabytes: spreadOf(rounds.map((round) => round[company].grownMegabytes)),
  });
  const ratioOf = (one: Company, other: Company) =>
    spreadOf(rounds.map((round) => round[one].p99Ms / round[other].p99Ms));
  return {
    p99Ratio: ratioOf("bad", "none"),
    p99RatioOfAsMany: ratioOf("bad", "good"),
    alone: of("none"),
    besideGood: of("good"),
    besideBad: of("bad"),
  };
}

/** Measures deliveries/s of the first half of 2,000 destinations while the other half either answers too or hangs. */
async function measureCrowd({ good, hanging }: Receivers, withBad: boolean): Promise<number> {
  let delivered = 0;
  const isOfFirstHalf = (id: string): boolean => Number(id.slice(4)) < MANY / 2;
  await using rig = await makeDeliveryRig({
    timeoutMs: 15_000,
    bodyBytes: 1_000,
    onEnded: ({ status, destinationId }) => {
      if (status === "delivered" && isOfFirstHalf(destinationId)) delivered += 1;
    },
  });
  for (let index = 0; index < MANY; index += 1)
    rig.configure(`dst_${index}`, {
      endpointId: `ep_${index}`,
      receiverUrl:
        withBad && index >= MANY / 2 ? atOwnAddress(hanging, index) : good[index % good.length]!,
    });
  let fed = 0;
  const feedUntil = async (endMs: number): Promise<void> => {
    while (performance.now() < endMs) {
      if (fed - delivered > MAX_OUTSTANDING / 2) await sleep(1);
      else {
        const pairs = Array.from({ length: 50 }, () => fed++ % (MANY / 2));
        await rig.ingestEach(pairs.flatMap((index) => [`ep_${index}`, `ep_${index + MANY / 2}`]));
      }
    }
  };
  await feedUntil(performance.now() + CROWD_WARM_UP_MS);
  const [startedMs, before] = [performance.now(), delivered];
  await feedUntil(startedMs + CROWD_MS);
  return (delivered - before) / ((performance.now() - startedMs) / 1_000);
}

/** Returns the URL at another address of this machine: each is a receiver of its own. */
function atOwnAddress(url: string, index: number): string {
  return url.replace("127.0.0.1", `127.0.${1 + (index >> 8)}.${index & 255}`);
}

/** Measures the time from the durable event to the durable end of its delivery, for the 42 that behave. */
async function measureSteady(
  { good, bad, ca }: Receivers,
  company: Company,
  shape: Shape,
): Promise<SteadyResult> {
  const underway = new Map<string, { readonly sinceMs: number; left: number }>();
  const latenciesMs: number[] = [];
  await using rig = await makeDeliveryRig({
    timeoutMs: 15_000,
    bodyBytes: 1_000,
    ca,
    onEnded: ({ eventId, destinationId }) => {
      const event = destinationId.startsWith("dst_good") ? underway.get(eventId) : undefined;
      if (event === undefined) return;
      latenciesMs.push(performance.now() - event.sinceMs);
      event.left -= 1;
      if (event.left === 0) underway.delete(eventId);
    },
  });
  const perEvent = shape === "apart" ? 1 : FEW;
  const endpoints = new Set<string>();
  const configure = (id: string, receiverUrl: string): void => {
    const endpointId = shape === "apart" ? `ep_of_${id}` : "ep_1";
    rig.configure(id, { endpointId, receiverUrl });
    endpoints.add(endpointId);
  };
  for (let index = 0; index < FEW; index += 1)
    configure(`dst_good${index}`, good[index % good.length]!);
  const others = { none: [], good: good.slice(FEW, FEW + bad.length), bad };
  for (const [index, receiverUrl] of others[company].entries())
    configure(`dst_other${index}`, receiverUrl);
  const feed = async (forMs: number): Promise<void> => {
    const startedMs = performance.now();
    const order = [...endpoints];
    const perStep = (order.length * STEADY_STEP_MS) / STEADY_PERIOD_MS;
    for (let step = 1; step * STEADY_STEP_MS <= forMs; step += 1) {
      const [from, to] = [Math.floor((step - 1) * perStep), Math.floor(step * perStep)];
      for (let next = from; next < to; next += 1) {
        const endpointId = order[next % order.length]!;
        void rig.ingest(endpointId, 1).then(([event]) => {
          if (!endpointId.startsWith("ep_of_dst_other"))
            underway.set(event!.id, { sinceMs: performance.now(), left: perEvent });
        });
      }
      await sleep(Math.max(0, startedMs + step * STEADY_STEP_MS - performance.now()));
    }
  };
  await feed(STEADY_WARM_UP_MS);
  latenciesMs.length = 0;
  const beforeBytes = process.memoryUsage().rss;
  await feed(STEADY_MS);
  const grownMegabytes = (process.memoryUsage().rss - beforeBytes) / 1_048_576;
  latenciesMs.sort((one, other) => one - other);
  return {
    p50Ms: percentile(latenciesMs, 0.5),
    p99Ms: percentile(latenciesMs, 0.99),
    grownMegabytes,
  };
}

async function startGood(): Promise<string[]> {
  const ports = await startAnsweringReceivers(GOOD_PORTS);
  return ports.map((port) => `http://127.0.0.1:${port}/hook`);
}
