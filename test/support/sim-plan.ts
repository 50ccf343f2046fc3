import type { RateLimitWindow } from "../../src/domain/enums.ts";
import type { DeliveryOptions } from "../../src/pipeline/deliver/delivery-options.ts";
import { seededRandom } from "./sim-clock.ts";

/** What may be done to the world in one step. */
export type Action = (typeof ANYTHING)[number] | "grow";

export type ReceiverKind = "ok" | "hang" | "fail" | "slow" | "retry_after" | "gone" | "mixed";

/** Each kind of world is small and focused on one promise; `mixed` has a little of everything. */
type WorldKind = "mixed" | "calm" | "limits" | "holds" | "retries" | "crowd" | "large" | "skew";

/** What a seed draws before its world begins. */
export interface Plan {
  readonly kind: WorldKind;
  readonly chaosMs: number;
  /** Longest step; some are only 20 ms. */
  readonly stepMs: number;
  readonly partitions: number;
  readonly processes: number;
  readonly endpoints: number;
  readonly destinations: number;
  /** Most events in one step. */
  readonly burst: number;
  /** Longest body, in bytes, at all endpoints but the first; 0: all are small. */
  readonly largeBytes: number;
  readonly actions: readonly (readonly [Action, weight: number])[];
  readonly receivers: readonly ReceiverKind[];
  /** The windows to draw from when a destination gets a limit. */
  readonly windows: readonly RateLimitWindow[];
  readonly limitedShare: number;
  readonly maxRetries: number;
  readonly logFaults: boolean;
  readonly unknownAppends: boolean;
  readonly torn: boolean;
  /** Whether offsets jump, so that nothing is found "a little before" a committed position. */
  readonly gaps: boolean;
  readonly asyncConfig: boolean;
  /** Whether notices of configuration changes are lost. */
  readonly lostNotices: boolean;
  readonly eager: boolean;
  /** Whether some requests wait for their connection. */
  readonly slowConnects: boolean;
  readonly sessionMs: number;
  readonly timeoutMs: number;
  /** The most by which the processes' wall clocks differ. */
  readonly skewMs: number;
  readonly delivery: Partial<DeliveryOptions>;
}

/** What the composition root adds to the longest try. */
const LATE_END_MS = 2_000;
/** Which of the worlds are wild. */
const WILD_EVERY = 16;
/** All but that the log grows, which is drawn for itself. */
const ANYTHING = [
  "ingest",
  "replay",
  "pause",
  "limit",
  "remove",
  "behave",
  "config",
  "crash",
  "crash_in_append",
  "rotate",
  "rotate_delay",
  "stop_or_start",
  "freeze",
  "doubt",
] as const;
/** What makes a partition move: embedded, there is one owner. */
const MOVING: ReadonlySet<Action> = new Set(["rotate", "freeze", "doubt"]);
const DISTURBING: ReadonlySet<Action> = new Set([
  "config",
  "crash",
  "crash_in_append",
  "rotate",
  "rotate_delay",
  "grow",
  "stop_or_start",
  "freeze",
  "doubt",
]);

/** Tells whether only receivers and operators act, so that every promise on timing must hold. */
export function isUndisturbed(plan: Plan): boolean {
  return (
    !plan.logFaults &&
    !plan.unknownAppends &&
    plan.skewMs === 0 &&
    plan.actions.every(([action, weight]) => weight === 0 || !DISTURBING.has(action))
  );
}

/** Returns how long after a disturbance a lost or changed owner may keep deliveries waiting, ms. */
export function disturbanceMs(plan: Plan): number {
  return plan.sessionMs + (plan.delivery.takeoverWaitMs ?? 0) + 8_000;
}

const BREAKER = {
  failures: 20,
  minStreakMs: 10_000,
  minNewRunsMs: 2_000,
  openMs: 5_000,
  maxOpenMs: 60_000,
};

export function drawPlan(seed: number): Plan {
  const plan = withAnyAction(withTurns(drawWithoutGrowth(seed), seed), seed);
  const random = seededRandom(seed ^ 0x5bd1e995);
  const moves = plan.actions.some(([action, weight]) => action === "rotate" && weight > 0);
  if (!moves || random() > 0.15) return plan;
  return { ...plan, actions: [...plan.actions, ["grow", 3]] };
}

/** In every fourth world an event with several destinations is taken in by one or two tasks in each turn of the event loop. */
function withTurns(plan: Plan, seed: number): Plan {
  if (seed % 4 !== 0) return plan;
  return {
    ...plan,
    delivery: { ...plan.delivery, maxTasksAtOnce: 1, turnItems: 1 + ((seed / 4) % 2), turnMs: 0 },
  };
}

/** In every sixteenth world anything may happen that happens in any of them, however small its promise. */
function withAnyAction(plan: Plan, seed: number): Plan {
  if (seed % WILD_EVERY !== WILD_EVERY - 1) return plan;
  const random = seededRandom(seed ^ 0x9e3779b9);
  const some = (share: number): boolean => random() < share;
  const known = new Map(plan.actions);
  return {
    ...plan,
    processes: plan.sessionMs === 0 ? plan.processes : 1 + Math.floor(random() * 3),
    actions: ANYTHING.filter((action) => plan.sessionMs > 0 || !MOVING.has(action)).map(
      (action) => [action, some(0.7) ? (known.get(action) ?? 1 + random() * 8) : 0],
    ),
    logFaults: some(0.2),
    slowConnects: false,
    lostNotices: some(0.2),
    asyncConfig: some(0.3),
  };
}

function drawWithoutGrowth(seed: number): Plan {
  const random = seededRandom(seed ^ 0x2545f491);
  const some = (share: number): boolean => random() < share;
  const int = (below: number): number => Math.floor(random() * below);
  const kind = drawKind(random());
  const timeoutMs = some(0.8) ? 3_000 : 15_000;
  const sessionMs = 2_000;
  const isUnsafe = kind === "mixed" && some(0.12);
  const breaks = kind === "retries" || kind === "holds" || some(0.5);
  const moves = kind === "retries" || kind === "holds" || some(0.4);
  const base: Plan = {
    kind,
    chaosMs: 8_000 + random() * 12_000,
    stepMs: 2_500,
    partitions: some(0.6) ? 1 : 2,
    processes: some(0.5) ? 2 : 1,
    endpoints: 2,
    destinations: 2 + int(3),
    burst: 4,
    largeBytes: 0,
    actions: [],
    receivers: ["ok", "ok", "fail", "hang", "slow", "retry_after", "gone", "mixed", "mixed"],
    windows: some(0.05) ? ["hour", "minute"] : ["second", "second", "minute"],
    limitedShare: 0.5,
    maxRetries: 4,
    logFaults: kind === "mixed" && some(0.25),
    unknownAppends: isUnsafe,
    torn: some(0.5),
    gaps: some(0.5),
    asyncConfig: some(0.25),
    lostNotices: some(0.1),
    eager: some(0.3),
    slowConnects: false,
    sessionMs,
    timeoutMs,
    skewMs: 0,
    delivery: {
      retryBaseMs: 1_000,
      deliveryTimeoutMs: timeoutMs,
      takeoverWaitMs: timeoutMs + LATE_END_MS,
      concurrency: some(0.5) ? 64 : 4,
      breaker: BREAKER,
    },
  };
  switch (kind) {
    case "mixed":
      return {
        ...base,
        actions: [
          ["ingest", 50],
          ["replay", 7],
          ["pause", 8],
          ["limit", 5],
          ["remove", 2],
          ["behave", 5],
          ["config", some(0.15) ? 6 : 0],
          ["crash", breaks ? 8 : 0],
          ["crash_in_append", breaks ? 5 : 0],
          ["rotate", moves ? 6 : 0],
          ["rotate_delay", moves ? 4 : 0],
          ["stop_or_start", moves ? 3 : 0],
          ["freeze", moves ? 4 : 0],
          ["doubt", moves ? 6 : 0],
        ],
        delivery: { ...base.delivery, maxInFlight: some(0.2) ? 8 : 4_096 },
      };
    case "calm":
      return {
        ...base,
        processes: 1,
        actions: [
          ["ingest", 50],
          ["replay", 10],
          ["pause", 10],
          ["behave", 3],
        ],
        limitedShare: 0.3,
      };
    case "limits":
      return drawLimits(base, some(0.5), some, int);
    case "holds":
      return {
        ...base,
        // Enough to pause two in turn: tasks held for one also keep the other's records in the log.
        destinations: 3 + int(2),
        receivers: ["ok", "ok", "mixed", "slow"],
        limitedShare: 0.2,
        stepMs: 1_200,
        gaps: some(0.8),
        actions: [
          ["ingest", 25],
          ["replay", 15],
          ["pause", 25],
          ["crash", 5],
          ["crash_in_append", 8],
          ["rotate", 10],
          ["rotate_delay", 5],
          ["freeze", 3],
          ["doubt", 5],
        ],
      };
    case "retries":
      return {
        ...base,
        destinations: 2,
        receivers: ["fail", "mixed", "mixed", "retry_after", "slow"],
        limitedShare: 0.2,
        stepMs: 1_500,
        torn: some(0.8),
        gaps: some(0.8),
        actions: [
          ["ingest", 30],
          ["replay", 8],
          ["behave", 3],
          ["crash", 5],
          ["crash_in_append", 15],
          ["rotate", 10],
          ["rotate_delay", 5],
          ["stop_or_start", 3],
          ["freeze", 3],
          ["doubt", 5],
        ],
        delivery: {
          ...base.delivery,
          breaker: some(0.5)
            ? {
                failures: 4,
                minStreakMs: 500,
                minNewRunsMs: 100,
                openMs: 2_000,
                maxOpenMs: 8_000,
              }
            : { ...BREAKER, failures: 1_000 },
        },
      };
    case "crowd":
      return {
        ...base,
        processes: 1,
        partitions: 1,
        chaosMs: 6_000,
        destinations: 6,
        burst: 4,
        receivers: ["hang"],
        limitedShare: 0,
        actions: [["ingest", 1]],
        stepMs: 600,
        // More hanging lanes than places in flight: their first tries alone would fill all of them.
        delivery: { ...base.delivery, maxInFlight: 4 },
      };
    case "large":
      return {
        ...base,
        processes: 1,
        endpoints: 4,
        chaosMs: 8_000,
        destinations: 4 + int(4),
        receivers: ["hang", "hang", "ok"],
        limitedShare: 0,
        // A partition gets a quarter of the budget: some bodies are larger than that.
        largeBytes: some(0.2) ? 96_000 : 20_000,
        actions: [
          ["ingest", 50],
          ["replay", 5],
        ],
        stepMs: 400,
        timeoutMs: 15_000,
        delivery: {
          ...base.delivery,
          deliveryTimeoutMs: 15_000,
          takeoverWaitMs: 15_000 + LATE_END_MS,
          maxPendingBytes: 256_000,
          laneBytes: 32_000,
        },
      };
    case "skew":
      return {
        ...base,
        processes: 2,
        skewMs: 3_000,
        limitedShare: 0,
        receivers: ["ok", "fail", "mixed"],
        actions: [
          ["ingest", 40],
          ["replay", 5],
          ["pause", 5],
          ["rotate", 4],
        ],
      };
    default:
      return kind satisfies never;
  }
}

function drawKind(draw: number): WorldKind {
  if (draw < 0.34) return "mixed";
  if (draw < 0.46) return "calm";
  if (draw < 0.64) return "limits";
  if (draw < 0.78) return "holds";
  if (draw < 0.92) return "retries";
  if (draw < 0.95) return "crowd";
  return draw < 0.97 ? "large" : "skew";
}

/** Draws a backlog against a limit, while its owner dies, moves or freezes. Embedded, there is one owner and no wait. */
function drawLimits(
  base: Plan,
  isEmbedded: boolean,
  some: (share: number) => boolean,
  int: (below: number) => number,
): Plan {
  const isMinute = some(0.6);
  const freezes = !isEmbedded && some(0.3);
  return {
    ...base,
    chaosMs: isMinute ? 50_000 : 8_000,
    stepMs: isMinute ? 6_000 : 800,
    partitions: 1,
    processes: isEmbedded ? 1 : 2,
    destinations: 2,
    endpoints: 1,
    burst: isMinute ? 3 : 4,
    receivers: ["ok", "ok", "slow", "mixed"],
    windows: isMinute ? ["minute"] : ["second"],
    slowConnects: !freezes && some(0.5),
    limitedShare: 1,
    maxRetries: 1 + int(2),
    sessionMs: isEmbedded ? 0 : base.sessionMs,
    actions: [
      ["ingest", 50],
      ["limit", some(0.2) ? 4 : 0],
      ["crash", some(0.6) ? 12 : 0],
      ["rotate", isEmbedded || some(0.4) ? 0 : 12],
      ["stop_or_start", some(0.3) ? 8 : 0],
      ["freeze", freezes ? 6 : 0],
      ["doubt", isEmbedded ? 0 : 5],
    ],
    delivery: {
      ...base.delivery,
      takeoverWaitMs: isEmbedded ? 0 : base.timeoutMs + LATE_END_MS,
    },
  };
}
