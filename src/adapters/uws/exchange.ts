import type { HttpResponse } from "uWebSockets.js";
import { BodyDeadline } from "./body-deadline.ts";
import type { Answer, Reception } from "../../domain/incoming-request.ts";
import type { IngestServerMetrics } from "./server-options.ts";
import type { ReadHead } from "./request-head.ts";
import { writeAnswer, writeContinue } from "./write-answer.ts";

/**
 * How long a sender may be silent, and how long it may go on, before an early answer closes its connection. A distant one
 * is silent for a round trip after its first 14 KB (RFC 6928); closed then, it would be reset by what it sends next.
 */
const LINGER_IDLE_MS = 400;
const MAX_LINGER_MS = 2_000;

/** Beyond this many pieces, a body is read on only while they average at least this size: see `Exchange.receive`. */
const MAX_SMALL_PIECES = 65_536;
const SMALL_PIECE_BYTES = 64;

/** What an exchange needs of its server. */
export interface ExchangeHost {
  readonly metrics: Pick<IngestServerMetrics, "aborted" | "malformed">;
  /** Called when the body comes too slowly: the exchange has to be failed. */
  onBodyMissing(exchange: Exchange, isChunked: boolean): void;
  /** True while the server stops: every answer then closes its connection. */
  isStopping(): boolean;
  /** Called exactly once for each exchange, when it is over, answered or not. */
  ended(): void;
}

/**
 * One request and its answer on one connection. The response is not touched once it was answered or
 * the client is gone: uWebSockets.js would throw.
 *
 * An answer that comes before the whole body was read (404, 413, 503) waits until the sender has finished or
 * pauses: closing a socket with unread bytes resets it, and the sender would lose the answer.
 */
export class Exchange {
  readonly #response: HttpResponse;
  readonly #host: ExchangeHost;
  #method = "";
  #isChunked = false;
  #mustClose = false;
  #awaitsContinue = false;
  #isContinued = false;
  #reception: Reception | null = null;
  #discarding = false;
  #parts: Buffer[] = [];
  #pieces = 0;
  #pieceBytes = 0;
  #bodyEnded = false;
  #paused = false;
  #over = false;
  /** True while bytes are taken in: further requests may follow in the same packet. */
  #isReceiving = false;
  /** True once an answer is on its way out. */
  #isWriting = false;
  /** An answer that waits for the sender to finish. */
  #early: Answer | null = null;
  #lastDataAt = 0;
  #lingerTimer: NodeJS.Timeout | null = null;
  #bodyDeadline: BodyDeadline | null = null;

  constructor(response: HttpResponse, host: ExchangeHost) {
    this.#response = response;
    this.#host = host;
  }

  identify({ head, mustClose, awaitsContinue }: ReadHead): void {
    this.#method = head.method;
    this.#isChunked = head.declaredBytes === null;
    this.#mustClose = mustClose;
    this.#awaitsContinue = awaitsContinue;
  }

  /** Reads nothing more until `start`. */
  pause(): void {
    this.#response.pause();
    this.#paused = true;
  }

  /** Takes in the body, with the bytes that have come before. `reception` null: reads the body and throws it away. */
  start(reception: Reception | null): void {
    this.#resume();
    if (reception === null) {
      this.#discard();
      return;
    }
    if (this.#over && !this.#bodyEnded) {
      // The client left while its endpoint was being looked up. (A whole body still counts.)
      reception.abandon();
      return;
    }
    this.#reception = reception;
    this.#continue();
    const waiting = this.#parts;
    this.#parts = [];
    for (const part of waiting) if (!this.#take(part)) return;
    if (this.#bodyEnded) this.#complete();
  }

  /**
   * Sets a deadline for a body that is still to come. Most bodies come whole with their heads and need none. One in chunks that cannot
   * be read never comes: nothing but this is called for it.
   */
  awaitBody(): void {
    if (this.#bodyEnded || this.#discarding || this.#over) return;
    this.#bodyDeadline ??= new BodyDeadline(() => {
      if (!this.#paused) this.#host.onBodyMissing(this, this.#isChunked);
    });
  }

  #continue(): void {
    if (!this.#awaitsContinue || this.#bodyEnded) return;
    this.#isContinued = true;
    writeContinue(this.#response);
  }

  /**
   * Takes in `chunk`, which uWebSockets.js lends: it is detached when this returns. Called for every chunk of the transfer coding, and
   * for megabytes of them in one turn of the loop: with a byte in each, that turn would take seconds.
   */
  receive(chunk: ArrayBuffer, isLast: boolean): void {
    this.#pieces += 1;
    this.#pieceBytes += chunk.byteLength;
    if (
      this.#pieces > MAX_SMALL_PIECES &&
      this.#pieceBytes < this.#pieces * SMALL_PIECE_BYTES &&
      !this.#over
    ) {
      this.#cutOff();
      return;
    }
    this.#isReceiving = true;
    this.#takeIn(chunk, isLast);
    this.#isReceiving = false;
  }

  #takeIn(chunk: ArrayBuffer, isLast: boolean): void {
    if (isLast) {
      this.#bodyEnded = true;
      this.#stopAwaiting();
    }
    if (this.#discarding) {
      this.#lastDataAt = performance.now();
      if (isLast && this.#early !== null && !this.#over) this.#send(this.#early);
      return;
    }
    if (isLast && this.#parts.length === 0 && this.#reception !== null) {
      // Most bodies come whole: they are worked on where they lie.
      if (this.#hold(chunk.byteLength)) this.#reception.complete(new Uint8Array(chunk), true);
      return;
    }
    if (!isLast) {
      this.awaitBody();
      this.#bodyDeadline?.onReceived(chunk.byteLength);
    }
    const part = copyOf(chunk);
    if (this.#reception === null) this.#parts.push(part);
    else if (this.#take(part) && isLast) this.#complete();
  }

  /** Ends the exchange, since the connection is gone. */
  abort(): void {
    if (this.#over) return;
    this.#end();
    // When uWebSockets.js itself refuses a request whose head was refused here, it closes the connection before that answer is written.
    if (!this.#isWriting) this.#host.metrics.aborted();
    this.#abandon();
  }

  answer(answer: Answer): void {
    if (this.#over) return;
    if (this.#bodyEnded) {
      this.#send(answer);
      return;
    }
    this.#discard();
    this.#early = answer;
    this.#lastDataAt = performance.now();
    this.#linger(performance.now() + MAX_LINGER_MS);
  }

  /** Answers at once and closes: the request is malformed, or its handling broke. */
  fail(answer: Answer): void {
    if (this.#over) return;
    this.#mustClose = true;
    this.#abandon();
    this.#send(answer);
  }

  /** Closes without an answer, which is the only way to have uWebSockets.js drop the rest of what it has read. */
  #cutOff(): void {
    this.#host.metrics.malformed("body in too many pieces");
    this.#abandon();
    this.#end();
    this.#response.close();
  }

  #abandon(): void {
    if (this.#bodyEnded || this.#discarding) return;
    this.#reception?.abandon();
    this.#discard();
  }

  #take(part: Buffer): boolean {
    if (!this.#hold(part.length)) return false;
    this.#parts.push(part);
    return true;
  }

  #hold(sizeBytes: number): boolean {
    if (this.#reception?.hold(sizeBytes) === true) return true;
    this.#discard();
    return false;
  }

  #complete(): void {
    const parts = this.#parts;
    this.#parts = [];
    const [only] = parts;
    const body = parts.length === 1 && only !== undefined ? only : Buffer.concat(parts);
    this.#reception?.complete(body);
  }

  #discard(): void {
    this.#discarding = true;
    this.#parts = [];
    this.#stopAwaiting();
  }

  #stopAwaiting(): void {
    this.#bodyDeadline?.stop();
    this.#bodyDeadline = null;
  }

  #linger(untilMs: number): void {
    const endsAtMs = Math.min(this.#lastDataAt + LINGER_IDLE_MS, untilMs);
    const endIfSilent = (): void => {
      if (this.#over || this.#early === null) return;
      const isSilent = performance.now() - this.#lastDataAt >= LINGER_IDLE_MS;
      if (isSilent || performance.now() >= untilMs) this.#send(this.#early);
      else this.#linger(untilMs);
    };
    // After the next poll: what has come while the loop was held up is read only then.
    const endAfterPoll = (): unknown => setImmediate(endIfSilent);
    this.#lingerTimer = setTimeout(endAfterPoll, Math.ceil(endsAtMs - performance.now()));
  }

  #resume(): void {
    if (!this.#paused) return;
    if (!this.#over) this.#response.resume();
    this.#paused = false;
    this.#bodyDeadline?.restart();
  }

  #send(answer: Answer): void {
    // A connection that stays open must be read on, or its next request would never be seen.
    this.#resume();
    const mustClose = this.#mustClose || !this.#bodyEnded || this.#host.isStopping();
    // A request that is refused costs its sender next to nothing: thousands in one packet would hold up the loop.
    if (mustClose || this.#isReceiving) this.#writeAfterPacket(answer, mustClose);
    else this.#write(answer, false);
  }

  /**
   * Answers after this turn of the loop, so that no further request of the same packet is handled: uWebSockets.js goes on
   * with the next request as soon as one is answered, even by an answer that closes the connection. While one is not answered yet,
   * it closes the connection instead.
   */
  #writeAfterPacket(answer: Answer, mustClose: boolean): void {
    this.#isWriting = true;
    setImmediate(() => {
      if (!this.#over) this.#write(answer, mustClose);
    });
  }

  #write(answer: Answer, mustClose: boolean): void {
    this.#end();
    const form = { method: this.#method, mustClose, isContinued: this.#isContinued };
    writeAnswer(this.#response, answer, form);
  }

  #end(): void {
    this.#over = true;
    this.#stopAwaiting();
    if (this.#lingerTimer !== null) clearTimeout(this.#lingerTimer);
    this.#host.ended();
  }
}

/** Copies a chunk. Small copies share a slab of memory, so that a 1 KB body costs no allocation. */
function copyOf(chunk: ArrayBuffer): Buffer {
  return Buffer.from(new Uint8Array(chunk));
}
