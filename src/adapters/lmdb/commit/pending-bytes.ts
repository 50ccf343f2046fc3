import { countedBytes } from "../../../domain/counted-bytes.ts";
import type { Topic } from "../../../domain/log.ts";

/** Deliveries leave room for webhooks: what a delivery writes is tried again by its writer, while a webhook is refused. */
const SHARE_OF_DELIVERIES = 1 / 2;
/** Of these, large appends leave room for small ones: somebody's bodies of megabytes would have the ends of all other tries refused. */
const SHARE_OF_LARGE = 7 / 8;
/** The largest append that counts as small, as a share of what deliveries may fill. */
const SMALL_SHARE = 1 / 32;

/** Bytes of one append, until `giveBack`. */
export interface TakenBytes {
  readonly sizeBytes: number;
  readonly isWebhooks: boolean;
}

/** Bounds the appends under way: webhooks may fill all of it, everything else a half. */
export class PendingBytes {
  readonly #mostBytes: number;
  #bytes = 0;
  #bytesOfDeliveries = 0;

  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes;
  }

  /** Returns null if there is no room. `topic` is that of the first record. */
  take(topic: Topic, wholeBytes: number): TakenBytes | null {
    const isWebhooks = topic === "events";
    const ownMost = isWebhooks ? this.#mostBytes : this.#mostBytes * SHARE_OF_DELIVERIES;
    const sizeBytes = countedBytes(wholeBytes, ownMost);
    if (this.#bytes + sizeBytes > this.#mostBytes) return null;
    if (!isWebhooks && this.#bytesOfDeliveries + sizeBytes > mostFor(sizeBytes, ownMost))
      return null;
    this.#add(sizeBytes, isWebhooks);
    return { sizeBytes, isWebhooks };
  }

  giveBack({ sizeBytes, isWebhooks }: TakenBytes): void {
    this.#add(-sizeBytes, isWebhooks);
  }

  #add(sizeBytes: number, isWebhooks: boolean): void {
    this.#bytes += sizeBytes;
    if (!isWebhooks) this.#bytesOfDeliveries += sizeBytes;
  }
}

/** Returns how many bytes of deliveries may be under way with an append of this size. */
function mostFor(sizeBytes: number, ownMost: number): number {
  return sizeBytes > ownMost * SMALL_SHARE ? ownMost * SHARE_OF_LARGE : ownMost;
}
