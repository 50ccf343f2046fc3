import type { HeaderList } from "./event.ts";
import type { RetryAfter } from "./retry-after.ts";

/** A request to a receiver, POSTed as it is. */
export interface OutboundRequest {
  readonly url: string;
  readonly headers: HeaderList;
  readonly body: Uint8Array;
}

/** What a request to a receiver came to. `latencyMs` counts from the call to the last byte (or the failure). */
export type Reply =
  | (RetryAfter & {
      readonly kind: "response";
      readonly status: number;
      /** The part of the body that was read, decoded. Where it is not UTF-8, this may be longer than what is stored. */
      readonly body: string;
      readonly latencyMs: number;
    })
  /** No whole answer came; its headers may have. */
  | (Partial<RetryAfter> & {
      readonly kind: "timeout" | "error";
      readonly reason: string;
      readonly latencyMs: number;
    });
