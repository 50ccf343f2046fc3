import { WaitList } from "../../../domain/wait-list.ts";
import { BytesInFlight } from "./bytes-in-flight.ts";

/** The largest share of a budget that one record counts for: two huge ones, at hanging receivers, leave a third to others. */
const LARGEST_SHARE = 1 / 3;

/** Bytes of records taken in and not complete: intake waits while there are too many. */
export class IntakeBudget {
  /** The part of these bytes whose tries are in flight. */
  readonly inFlight: BytesInFlight;
  readonly #maxBytes: number;
  readonly #onChange: (bytes: number) => void;
  #parent: IntakeBudget | null;
  #bytes = 0;
  /** The part of `#bytes` that does not count here, and the part that does not count in the parent. */
  #uncounted = 0;
  #uncountedAbove = 0;
  readonly #waitingForRoom = new WaitList();

  constructor(
    maxBytes: number,
    parent: IntakeBudget | null = null,
    onChange = (_bytes: number): void => undefined,
  ) {
    this.#maxBytes = maxBytes;
    this.#parent = parent;
    this.#onChange = onChange;
    this.inFlight = new BytesInFlight(maxBytes, parent?.inFlight ?? null);
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Whether more than half of this budget, or of its parent, is taken. */
  get isTight(): boolean {
    return this.#counted * 2 > this.#maxBytes || (this.#parent?.isTight ?? false);
  }

  /** Counts a record that is taken in. */
  add(bytes: number): void {
    this.#count(bytes, 1);
  }

  /** Gives back the bytes of a record that is complete, or left to the next owner. */
  release(bytes: number): void {
    this.#count(bytes, -1);
  }

  /** Returns undefined if there is room now, otherwise a promise that resolves once there may be. */
  room(): Promise<void> | undefined {
    if (this.#counted > this.#maxBytes) return this.#wait();
    return this.#parent?.room();
  }

  /** Takes its bytes off the parent: records that are dropped are never released. Nothing waits here for room any more. */
  close(): void {
    if (this.#parent !== null) this.#parent.#change(-this.#bytes, -this.#uncountedAbove);
    this.#parent = null;
    this.#waitingForRoom.wakeAll();
  }

  get #counted(): number {
    return this.#bytes - this.#uncounted;
  }

  /** Counts or uncounts a record here and in the parent. @returns how much of it does not count here */
  #count(recordBytes: number, sign: 1 | -1): number {
    const maxCounted = Math.floor(this.#maxBytes * LARGEST_SHARE);
    const uncounted = Math.max(0, recordBytes - maxCounted);
    this.#change(sign * recordBytes, sign * uncounted);
    if (this.#parent !== null)
      this.#uncountedAbove += sign * this.#parent.#count(recordBytes, sign);
    return uncounted;
  }

  #change(bytes: number, uncounted: number): void {
    this.#bytes += bytes;
    this.#uncounted += uncounted;
    this.#onChange(this.#bytes);
    if (bytes < 0 && this.#counted <= this.#maxBytes) this.#waitingForRoom.wakeAll();
  }

  async #wait(): Promise<void> {
    await this.#waitingForRoom.wait();
    await this.#parent?.room();
  }
}
