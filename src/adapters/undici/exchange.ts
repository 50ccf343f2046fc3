import type { Dispatcher, Pool } from "undici";
import type { RetryAfter } from "../../domain/retry-after.ts";
import { OverheadError } from "./answer-parser.ts";

export interface RequestToSend {
  readonly method: "POST" | "GET";
  readonly path: string;
  /** Names and values, alternating. */
  readonly headers: string[];
  readonly body: Uint8Array | null;
}

export interface Answer extends RetryAfter {
  readonly status: number;
  /** Whether the body is compressed; it is not inflated. */
  readonly isEncoded: boolean;
  /** The first bytes of the body. */
  readonly bytes: Buffer;
  /** False if the body was longer: the rest was not read, and the connection was closed. */
  readonly isWhole: boolean;
}

type Headers = Readonly<Record<string, string | string[] | undefined>>;
const NO_BYTES = Buffer.alloc(0);
/** Some receivers send one every few seconds while they work. */
const MAX_INTERIM = 100;
/** These end with their headers, whatever length those state (RFC 9112 section 6.3). */
const WITHOUT_BODY: ReadonlySet<number> = new Set([204, 304]);

type Missing = "answer" | "connection" | "free connection";

/** A try did not end in time: `waitsFor` was still missing. */
export class DeadlineError extends Error {
  readonly code = "deadline";
  readonly waitsFor: Missing;

  constructor(waitsFor: Missing) {
    super(`no ${waitsFor} in time`);
    this.name = "DeadlineError";
    this.waitsFor = waitsFor;
  }
}

export interface ExchangeLimits {
  /** Limits the answer's body. */
  readonly maxBytes: number;
  /** From now until the whole answer is there. */
  readonly timeoutMs: number;
}

/** Too many interim answers, which do not count towards the limit on the body. */
class TooManyInterimError extends Error {
  readonly code = "too_many_interim";
}

/**
 * One request and its answer, on the dispatcher's own callbacks: without a stream, an iterator and an abort signal, which
 * together cost as much as the request itself.
 */
export class Exchange implements Dispatcher.DispatchHandler {
  readonly answered: Promise<Answer>;
  readonly timeoutMs: number;
  readonly #pool: Pool;
  readonly #maxBytes: number;
  readonly #sendBeforeMs: number;
  readonly #onSent: () => void;
  #resolve: (answer: Answer) => void = () => {};
  #reject: (error: Error) => void = () => {};
  #controller: Dispatcher.DispatchController | null = null;
  #aborted: Error | null = null;
  #interim = 0;
  #status = 0;
  #headers: Headers = {};
  #chunks: Buffer[] = [];
  #sizeBytes = 0;

  /** `onSent` is called when the request goes out, after its connection was made. */
  constructor(
    pool: Pool,
    request: RequestToSend,
    { maxBytes, timeoutMs }: ExchangeLimits,
    onSent = (): void => {},
  ) {
    this.#pool = pool;
    this.#maxBytes = maxBytes;
    this.timeoutMs = timeoutMs;
    this.#sendBeforeMs = performance.now() + timeoutMs;
    this.#onSent = onSent;
    this.answered = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    pool.dispatch(request, this);
  }

  /** What is still missing; nothing was sent unless that is the answer. */
  get waitsFor(): Missing {
    if (this.#controller !== null) return "answer";
    return this.#pool.stats.queued > 0 ? "free connection" : "connection";
  }

  /** What the answer's headers, if they have come, say of when to come back. They count even if the rest never comes. */
  get asks(): RetryAfter {
    return {
      retryAfter: firstValue(this.#headers["retry-after"]),
      date: firstValue(this.#headers["date"]),
    };
  }

  /** Rejects at once, wherever the request is; closes its connection if it has one and the answer is not there yet. */
  abort(reason: Error): void {
    if (this.#aborted !== null) return;
    this.#aborted = reason;
    this.#reject(reason);
    this.#controller?.abort(reason);
  }

  /** Ends it at its deadline: rejects with what is missing. */
  expire(): void {
    this.abort(new DeadlineError(this.waitsFor));
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // A process that stood still may hear of its connection before its timers run; by now another process may have sent this.
    if (performance.now() >= this.#sendBeforeMs) this.expire();
    this.#controller = controller;
    if (this.#aborted === null) this.#onSent();
    else controller.abort(this.#aborted);
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Headers,
  ): void {
    if (status < 200) {
      // The answer is yet to come.
      this.#interim += 1;
      if (this.#interim > MAX_INTERIM) controller.abort(new TooManyInterimError());
      return;
    }
    this.#status = status;
    this.#headers = headers;
    if (WITHOUT_BODY.has(status)) this.#settle(true);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const fits = chunk.subarray(0, this.#maxBytes - this.#sizeBytes);
    this.#chunks.push(fits);
    this.#sizeBytes += fits.length;
    if (fits.length === chunk.length) return;
    this.#settle(false);
    controller.abort(new Error("the rest of the answer is not wanted"));
  }

  onResponseEnd(): void {
    this.#settle(true);
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    // Its status is known: framing without end is as good as content without end.
    if (error instanceof OverheadError && this.#status > 0) this.#settle(false);
    else this.#reject(error);
  }

  #settle(isWhole: boolean): void {
    const chunks = this.#chunks;
    const [only = NO_BYTES] = chunks;
    // A chunk may be lent from the socket's buffer, so a copy is kept.
    const bytes = chunks.length > 1 ? Buffer.concat(chunks) : Buffer.from(only);
    const encoding = firstValue(this.#headers["content-encoding"])?.toLowerCase() ?? "";
    const answer: Answer = {
      ...this.asks,
      status: this.#status,
      isEncoded: encoding !== "" && encoding !== "identity" && bytes.length > 0,
      bytes,
      isWhole,
    };
    this.#reject = () => {}; // The answer is there, whatever becomes of its connection.
    this.#forget();
    // Undici frees the connection in an immediate that it sets right after this: a try that is sent sooner opens another one.
    queueMicrotask(() => setImmediate(this.#resolve, answer));
  }

  /**
   * Drops references with which most ended exchanges survived two collections, and moved into V8's old generation with all that
   * belongs to them. See "The collector" in bench/what-was-tried.md.
   */
  #forget(): void {
    this.#controller = null;
    this.#headers = {};
    this.#chunks = [];
  }
}

function firstValue(value: string | string[] | undefined): string | null {
  return (Array.isArray(value) ? value[0] : value) ?? null;
}
