import { Lane } from "./lane.ts";
import type { LastLimit } from "../limits/limits-codec.ts";
import type { LaneHost } from "./lane-host.ts";

/** The lanes of one partition, by destination: made when they are needed, and dropped when a new one would do as well. */
export class LaneSet {
  readonly #host: LaneHost;
  readonly #lanes = new Map<string, Lane>();
  /** Lanes whose destination has changed, and perhaps was deleted, since it was last looked up here. */
  readonly #changed = new Set<Lane>();

  constructor(host: LaneHost) {
    this.#host = host;
  }

  of(destinationId: string): Lane {
    let lane = this.#lanes.get(destinationId);
    if (lane === undefined) {
      lane = new Lane(destinationId, this.#host);
      this.#lanes.set(destinationId, lane);
    }
    return lane;
  }

  find(destinationId: string): Lane | undefined {
    return this.#lanes.get(destinationId);
  }

  onDestinationChanged(destinationId: string): void {
    const lane = this.find(destinationId);
    if (lane === undefined) return;
    this.#changed.add(lane);
    lane.onDestinationChanged();
  }

  sweep(): void {
    for (const lane of this.#lanes.values())
      if (lane.isIdle) this.#drop(lane);
      else if (lane.isEmpty && (lane.isCircuitOpen || this.#changed.has(lane)))
        void this.#dropIfDeleted(lane);
  }

  /** Closes the lanes, so that nothing more starts. They stay: tries in flight still end in them. */
  close(): void {
    for (const lane of this.#lanes.values()) lane.close();
  }

  /** Returns the limits for the next owner, once the lanes are closed and no try is in flight. */
  lastLimits(): LastLimit[] {
    return [...this.#lanes.values()].flatMap((lane) => lane.lastLimit() ?? []);
  }

  #drop(lane: Lane): void {
    lane.close();
    this.#lanes.delete(lane.destinationId);
    this.#changed.delete(lane);
  }

  /** Drops the lane of a deleted destination: only a try closes a circuit, and no more are made, nor counted by its limit. */
  async #dropIfDeleted(lane: Lane): Promise<void> {
    const { kind } = await this.#host.lookUp(lane.destinationId);
    if (kind === "found") this.#changed.delete(lane);
    if (kind !== "missing" || !lane.isEmpty || this.find(lane.destinationId) !== lane) return;
    this.#drop(lane);
  }
}
