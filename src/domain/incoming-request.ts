import type { HeaderList } from "./event.ts";

/** The head of one HTTP request, already known to be well-formed. */
export interface RequestHead {
  /** As sent: methods are case-sensitive. */
  readonly method: string;
  /** Raw path, not decoded. */
  readonly path: string;
  /** Raw query without `?`; null when the target has no `?`. */
  readonly query: string | null;
  /** Names in lower case: uWebSockets.js does not keep them as sent. */
  readonly headers: HeaderList;
  readonly remoteAddress: string;
  /** Announced length; null when none was announced (chunked). */
  readonly declaredBytes: number | null;
}

/** What goes back over HTTP. `body` is JSON. */
export interface Answer {
  /** Code and phrase, such as `200 OK`. */
  readonly status: string;
  readonly eventId: string | null;
  /** At most one more header (`allow`, `retry-after`). */
  readonly extraHeader: readonly [name: string, value: string] | null;
  readonly body: string;
}

export type SendAnswer = (answer: Answer) => void;

/** The intake of one body. Must not be called again after `complete` or `abandon`, or once `hold` has returned false. */
export interface Reception {
  /** Asks for room to hold `sizeBytes` more. False: discard the body, the answer comes without it. */
  hold(sizeBytes: number): boolean;
  /** Hands over the whole body, which the reception may keep; one that `isLent` is there only until this returns. */
  complete(body: Uint8Array, isLent?: boolean): void;
  /** Reports that the client went away before the body was complete: nothing is recorded. */
  abandon(): void;
}
