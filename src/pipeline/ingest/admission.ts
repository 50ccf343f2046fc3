/** Number of endpoints up to which idle ones keep their share: shares made anew for every request would be long-lived garbage. */
const MAX_KEPT_SHARES = 10_000;

/** What the process may hold between the head of a request and its answer. */
export interface AdmissionLimits {
  readonly maxRequests: number;
  readonly maxBytes: number;
}

/** One endpoint's part of what is in flight. */
export interface Share {
  requests: number;
  bytes: number;
}

export interface Admission {
  /** Returns null when the process, or this endpoint's fair part of it, is full: answer 503. */
  enter(key: string): Share | null;
  /** Asks for `sizeBytes` more; when it returns false, nothing has changed. */
  grow(share: Share, sizeBytes: number): boolean;
  /** Ends a request that holds `sizeBytes`. */
  leave(key: string, share: Share, sizeBytes: number): void;
  readonly inFlight: { readonly requests: number; readonly bytes: number };
}

/**
 * Bounds requests and bytes in flight, fairly between endpoints without knowing how many there are: each may hold as much as is
 * still free (the dynamic threshold of Choudhury and Hahne, 1998). A single one gets half of the room, n busy ones get 1/(n+1)
 * each, and a newcomer always finds some.
 */
export function makeAdmission(limits: AdmissionLimits): Admission {
  const shares = new Map<string, Share>();
  const total: Share = { requests: 0, bytes: 0 };
  return {
    inFlight: total,
    enter(key) {
      let share = shares.get(key);
      if ((share?.requests ?? 0) >= limits.maxRequests - total.requests) return null;
      if (share === undefined) shares.set(key, (share = { requests: 0, bytes: 0 }));
      share.requests += 1;
      total.requests += 1;
      return share;
    },
    grow(share, sizeBytes) {
      if (share.bytes + sizeBytes > limits.maxBytes - total.bytes) return false;
      share.bytes += sizeBytes;
      total.bytes += sizeBytes;
      return true;
    },
    leave(key, share, sizeBytes) {
      share.requests -= 1;
      share.bytes -= sizeBytes;
      total.requests -= 1;
      total.bytes -= sizeBytes;
      if (share.requests === 0 && shares.size > MAX_KEPT_SHARES) shares.delete(key);
    },
  };
}
