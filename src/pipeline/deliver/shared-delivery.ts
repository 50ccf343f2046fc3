import type { DeliveryOptions } from "./delivery-options.ts";
import type { DeliveryPorts } from "./ports.ts";
import type { BodyCopies } from "./bounds/body-copies.ts";
import type { IntakeBudget } from "./bounds/intake-budget.ts";
import type { Recoveries } from "./recovery/recoveries.ts";
import type { RunLedger } from "./recovery/run-ledger.ts";
import type { SendGate } from "./bounds/send-gate.ts";
import type { IntakeTurns } from "./bounds/intake-turns.ts";

/** What all partitions of a process share. */
export interface SharedDelivery {
  readonly ports: DeliveryPorts;
  readonly options: DeliveryOptions;
  readonly gate: SendGate;
  readonly budget: IntakeBudget;
  readonly copies: BodyCopies;
  readonly turns: IntakeTurns;
  /** Returns a time in ms that never goes back and never jumps. */
  readonly steadyNow: () => number;
  /** Runs that went on recently, in any partition: copies of their tasks may come late. */
  readonly recent: RunLedger;
  readonly recoveries: Recoveries;
  /** `ports.destination` and `ports.destinationsOf`, guarded: neither throws or rejects. */
  readonly lookUp: DeliveryPorts["destination"];
  readonly destinationsOf: DeliveryPorts["destinationsOf"];
  readonly onQueued: (change: number) => void;
  /** Cuts off the tries still in flight when the process's grace is over. */
  readonly cutOff: AbortSignal;
}
