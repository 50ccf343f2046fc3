import { countedBytes } from "../../../domain/counted-bytes.ts";
import type { Topic } from "../../../domain/log.ts";

/** Deliveries leave room for webhooks: what a delivery writes is tried again by its writer, while a webhook is refused. */
const SHARE_OF_DELIVERIES = 1 / 2;

/** Bytes of one append, until `giveBack`. */
export interface TakenBytes {
  readonly sizeBytes: number;
  readonly isWebhooks: boolean;
}

/** Bounds the appends under way: webhooks may fill all of it, everything else a half. */
export class PendingBytes {
  readonly #maxBytes: number;
  #bytes = 0;
  #bytesOfDeliveries = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Returns null if there is no room. `topic` is that of the first record. */
  take(topic: Topic, wholeBytes: number): TakenBytes | null {
    const isWebhooks = topic === "events";
    const ownMax = isWebhooks ? this.#maxBytes : this.#maxBytes * SHARE_OF_DELIVERIES;
    const ownBytes = isWebhooks ? this.#bytes : this.#bytesOfDeliveries;
    const sizeBytes = countedBytes(wholeBytes, ownMax);
    if (ownBytes + sizeBytes > ownMax || this.#bytes + sizeBytes > this.#maxBytes) return null;
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
