import type { Clock } from "../../domain/clock.ts";
import type { DestinationConfig, Lookup, MaybeLater } from "../../domain/destination.ts";
import type { EventListItem } from "../../domain/event-query.ts";
import type { EventStoreReader } from "../../domain/event-store.ts";
import { within } from "../../domain/within.ts";
import { Arrivals } from "./arrivals.ts";

type Destinations = Lookup<readonly Pick<DestinationConfig, "status">[]>;
type Received = Pick<EventListItem, "id" | "endpointId" | "receivedAtMs" | "signatureValid">;

export interface FanoutPorts {
  readonly store: Pick<EventStoreReader, "fannedOut">;
  readonly clock: Clock;
  /** The endpoint's destinations that are not deleted, whatever their status. Synchronous on a cache hit. */
  readonly destinationsOf: (endpointId: string) => MaybeLater<Destinations>;
}

interface Patience {
  /** Only events received less than this long ago (or, by another node's clock, ahead) are waited for. */
  readonly youngMs: number;
  /** By the monotonic clock. */
  readonly endAtMs: number;
}

/**
 * Waits for fan-outs that are on their way into the store. Only an accepted event at an endpoint with active destinations has
 * one to come; the store is asked about no other.
 */
export class FanoutArrivals {
  readonly #ports: FanoutPorts;
  readonly #arrivals: Arrivals;

  constructor(ports: FanoutPorts) {
    this.#ports = ports;
    const { store, clock } = ports;
    this.#arrivals = new Arrivals((orgId, keys) => store.fannedOut(orgId, keys), clock);
  }

  /** @param events without a fan-out yet. @returns those whose fan-out has come. @throws {EventStoreError} */
  async wait<Event extends Received>(
    orgId: string,
    events: readonly Event[],
    { youngMs, endAtMs }: Patience,
  ): Promise<readonly Event[]> {
    const { clock } = this.#ports;
    const nowMs = clock.now();
    const young = events.filter(
      ({ signatureValid, receivedAtMs }) =>
        signatureValid && Math.abs(nowMs - receivedAtMs) < youngMs,
    );
    if (young.length === 0 || clock.monotonic() >= endAtMs) return [];
    const endpointIds = await this.#active(young, endAtMs);
    const awaited = young.filter(({ endpointId }) => endpointIds.has(endpointId));
    const came = await Promise.all(
      awaited.map((event) => this.#arrivals.wait(orgId, event, endAtMs)),
    );
    return awaited.filter((_, index) => came[index]);
  }

  /** Returns the endpoints that have active destinations, as far as lookups finish in time. */
  async #active(events: readonly Received[], endAtMs: number): Promise<ReadonlySet<string>> {
    const { clock, destinationsOf } = this.#ports;
    const active = new Set<string>();
    const endpointIds = new Set(events.map(({ endpointId }) => endpointId));
    const looking: Promise<void>[] = [];
    for (const endpointId of endpointIds) {
      const note = (found: Destinations): void => {
        if (hasActive(found)) active.add(endpointId);
      };
      const found = destinationsOf(endpointId);
      if (found instanceof Promise) looking.push(found.then(note));
      else note(found);
    }
    if (looking.length === 0) return active;
    // Not longer than for a fan-out: the configuration store may hang.
    const leftMs = Math.max(0, endAtMs - clock.monotonic());
    await within(Promise.all(looking), leftMs, () => {}, clock);
    return active;
  }
}

function hasActive(found: Destinations): boolean {
  return found.kind === "found" && found.value.some(({ status }) => status === "active");
}
