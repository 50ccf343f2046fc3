import { setTimeout as sleep } from "node:timers/promises";
import type { Broker } from "kafkajs";
import { isMoved } from "./coordinator-errors.ts";

export interface JoinRequest {
  readonly groupId: string;
  /** Empty for one that is new to the group. */
  readonly memberId: string;
}
export interface JoinResponse {
  readonly generationId: number;
  readonly memberId: string;
}
export interface SyncResponse {
  readonly memberAssignment: Buffer;
}
/** The calls that the group coordinator takes; the client's own typings leave them out. */
export interface Coordinator extends Broker {
  joinGroup(request: JoinRequest): Promise<JoinResponse>;
  syncGroup(request: JoinRequest): Promise<SyncResponse>;
  heartbeat(request: JoinRequest): Promise<unknown>;
  leaveGroup(request: JoinRequest): Promise<unknown>;
}

export interface CoordinatorPorts {
  /** Looks up who coordinates the group; rejects after some ten seconds without an answer. */
  readonly find: () => Promise<Coordinator>;
  readonly monotonic: () => number;
  /** Told of each look-up that failed and is repeated. */
  readonly onError: (error: Error) => void;
}

/** Brokers fence one that died after nine seconds unless told otherwise, then choose another coordinator, which loads the group. */
const FOUND_WITHIN_MS = 30_000;
const LOOK_AGAIN_MS = 200;

/**
 * Whoever coordinates the group by now. kafkajs looks that up only to join: it would keep asking a broker that is gone, and joins again
 * at the first one that says it is not the coordinator. The next one says so too, for a moment: brokers name it before it knows.
 * Meanwhile the group stays as it is, so nothing is won by joining again, which needs a coordinator as well.
 */
export class CurrentCoordinator {
  readonly #ports: CoordinatorPorts;
  #current: Coordinator;

  constructor(first: Coordinator, ports: CoordinatorPorts) {
    this.#current = first;
    this.#ports = ports;
  }

  get broker(): Coordinator {
    return this.#current;
  }

  /** Sets whom the group was joined at. */
  joined(coordinator: Coordinator): void {
    this.#current = coordinator;
  }

  /** Asks the next coordinator where one has moved, for as long as the answer is of use, and for half a minute at most. */
  async ask<T>(call: (coordinator: Coordinator) => Promise<T>, isOfUse: () => boolean): Promise<T> {
    const { monotonic } = this.#ports;
    const untilMs = monotonic() + FOUND_WITHIN_MS;
    const goesOn = () => isOfUse() && monotonic() < untilMs;
    for (let pauseMs = 0; ; pauseMs = LOOK_AGAIN_MS) {
      try {
        return await call(this.#current);
      } catch (error) {
        if (!isMoved(error) || !goesOn()) throw error;
      }
      await sleep(pauseMs);
      this.#current = await this.#findNext(goesOn);
    }
  }

  async #findNext(goesOn: () => boolean): Promise<Coordinator> {
    for (;;) {
      try {
        return await this.#ports.find();
      } catch (error) {
        if (!goesOn()) throw error;
        this.#ports.onError(error as Error);
        await sleep(LOOK_AGAIN_MS);
      }
    }
  }
}
