import type { AttemptStatus } from "../../../src/domain/enums.ts";

/** What a request is meant to test: each kind has one right status while the relay is well. */
export type SentKind = "genuine" | "forged" | "paused" | "too_large";

/** A request of the sender, with its bytes and its answer. Times are wall clock, ms. */
export interface SentRequest {
  readonly number: number;
  readonly kind: SentKind;
  readonly endpointId: string;
  readonly body: string;
  readonly sentMs: number;
  readonly endedMs: number;
  /** Null: no answer; `reason` then says how the connection ended. */
  readonly status: number | null;
  readonly reason: string;
  readonly eventId: string | null;
}

/** A request that a receiver took. */
export interface ReceivedRequest {
  readonly path: string;
  readonly eventId: string;
  readonly destinationId: string;
  readonly tryNumber: number;
  readonly trigger: string;
  readonly timestamp: string;
  readonly signature: string;
  readonly body: string;
  /** The request cannot have come before this: the receiver had read everything that came by then. */
  readonly notBeforeMs: number;
  readonly arrivedMs: number;
  endedMs: number | null;
  /** Null: the sender was gone before the answer. */
  status: number | null;
}

/** The time from the start of a fault until everything was back in place. */
export interface FaultWindow {
  readonly name: string;
  readonly startMs: number;
  endMs: number;
}

export interface DestinationUnderTest {
  readonly id: string;
  readonly endpointId: string;
  readonly secret: string;
  /** False: the receiver answers 2xx sooner or later, so that nothing may end `dead`. */
  readonly mayEndDead: boolean;
  readonly limit: { readonly max: number; readonly windowMs: number } | null;
}

export interface DumpedEvent {
  readonly id: string;
  readonly endpointId: string;
  readonly signatureValid: boolean;
  readonly verificationError: string | null;
  readonly summary: {
    readonly total: number;
    readonly delivered: number;
    readonly failed: number;
    readonly pending: number;
  } | null;
}

export interface DumpedAttempt {
  readonly eventId: string;
  readonly destinationId: string;
  readonly run: string;
  /** Number of the try within its run. */
  readonly tryNumber: number;
  readonly status: AttemptStatus;
  readonly httpStatus: number;
}

/** What the API and the event store say once all is quiet. */
export interface ApiDump {
  readonly events: readonly DumpedEvent[];
  readonly attempts: readonly DumpedAttempt[];
  /** Payloads as the API gives them: of every accepted event, or of a sample. */
  readonly payloads: ReadonlyMap<string, string>;
}

export interface Ledgers {
  readonly sent: readonly SentRequest[];
  readonly received: readonly ReceivedRequest[];
  readonly faults: readonly FaultWindow[];
  readonly destinations: readonly DestinationUnderTest[];
  readonly dump: ApiDump;
}

export interface Violation {
  readonly invariant: "I1" | "I2" | "I3" | "I4" | "I6" | "I7" | "I8";
  readonly what: string;
}

/** Returns wall-clock time that does not step within a run. */
export function nowMs(): number {
  return performance.timeOrigin + performance.now();
}
