import type { ServerResponse } from "node:http";

interface Unsent {
  readonly caller: string;
  readonly sizeBytes: number;
}

/**
 * Limits the memory held by answers that clients have not read yet. Over the limit it closes the longest-waiting connection
 * of the caller that holds most, so that one who requests large answers and reads none of them harms nobody else.
 */
export class UnsentAnswers {
  readonly #maxBytes: number;
  /** Oldest first. */
  readonly #answers = new Map<ServerResponse, Unsent>();
  #sizeBytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Counts an answer; call it when the whole answer was handed over. @param caller any text that identifies who asks */
  note(response: ServerResponse, caller: string): void {
    const sizeBytes = response.writableLength;
    if (sizeBytes === 0 || response.destroyed || response.writableFinished) return;
    this.#answers.set(response, { caller, sizeBytes });
    this.#sizeBytes += sizeBytes;
    response.once("close", () => this.#forget(response));
    while (this.#sizeBytes > this.#maxBytes && this.#answers.size > 0) this.#closeOne();
  }

  #closeOne(): void {
    const sizes = new Map<string, number>();
    let most = "";
    let maxBytes = 0;
    for (const { caller, sizeBytes } of this.#answers.values()) {
      const size = (sizes.get(caller) ?? 0) + sizeBytes;
      sizes.set(caller, size);
      if (size > maxBytes) [most, maxBytes] = [caller, size];
    }
    for (const [response, { caller }] of this.#answers) {
      if (caller !== most) continue;
      this.#forget(response);
      response.destroy();
      return;
    }
  }

  #forget(response: ServerResponse): void {
    this.#sizeBytes -= this.#answers.get(response)?.sizeBytes ?? 0;
    this.#answers.delete(response);
  }
}
