/** Every way a well-formed request can end. Those with an `eventId` are in the log before the answer. */
export type IngestOutcome =
  | { readonly kind: "accepted"; readonly eventId: string } // 200
  | { readonly kind: "verification_failed"; readonly eventId: string; readonly message: string } // 401
  | { readonly kind: "source_not_allowed"; readonly eventId: string; readonly message: string } // 403
  | { readonly kind: "endpoint_disabled"; readonly eventId: string; readonly message: string } // 403
  | { readonly kind: "endpoint_paused"; readonly eventId: string; readonly message: string } // 409
  | { readonly kind: "payload_too_large"; readonly eventId: string; readonly message: string } // 413
  | {
      readonly kind: "rate_limited"; // 429
      readonly eventId: string;
      readonly message: string;
      readonly retryAfterSeconds: number;
    }
  | { readonly kind: "not_found" } // 404
  | { readonly kind: "method_not_allowed"; readonly allow: string } // 405
  | { readonly kind: "unavailable"; readonly cause: UnavailableCause }; // 503

export type OutcomeKind = IngestOutcome["kind"];

/** Outcomes that are recorded as an event. */
export type RecordedKind = Extract<IngestOutcome, { readonly eventId: string }>["kind"];

/** Why a request was answered 503: a label for metrics, never shown to the sender. */
export type UnavailableCause = "overloaded" | "configuration" | "verification" | "log" | "internal";
