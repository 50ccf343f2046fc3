import type { GateLane } from "./send-gate.ts";

/** Waiting lanes of one kind that are looked at in vain when bytes are given back. */
const LOOKED_AT = 16;
/** Of the budget of the process. */
const SMALL_SHARE = 1 / 256;
/** Of the bytes that lanes may have in flight, for large bodies: small ones pass beside them. */
const LARGE_SHARE = 3 / 4;

/** Large bodies of lanes that are proven and of those that are not, and small ones of those that are not. */
type Kind = "proven" | "unproven" | "small";

interface OfKind {
  bytes: number;
  /** And how many tries send each: destinations of one event share its body. */
  readonly bodies: Map<Uint8Array, number>;
  /** Lanes, and what each wants to send next. */
  readonly waiting: Map<GateLane, Uint8Array>;
}

/**
 * Bytes of tries in flight in one partition, or in all of the process: what receivers that hang keep of the budget. Lanes whose latest
 * try did not succeed have together at most half of it, and large bodies of all lanes three quarters. One large body of each kind
 * passes whatever its size, or it would never be sent. Small bodies of proven lanes are not counted.
 */
export class BytesInFlight {
  readonly #maxBytes: number;
  readonly #smallBytes: number;
  readonly #parent: BytesInFlight | null;
  readonly #kinds: Readonly<Record<Kind, OfKind>> = {
    proven: none(),
    small: none(),
    unproven: none(),
  };

  constructor(maxBytes: number, parent: BytesInFlight | null) {
    this.#maxBytes = maxBytes;
    this.#smallBytes = parent === null ? maxBytes * SMALL_SHARE : parent.#smallBytes;
    this.#parent = parent;
  }

  /** The lane may send this body now. */
  hasRoom(lane: GateLane, body: Uint8Array): boolean {
    const kind = this.#kindOf(lane, body);
    if (kind === null) return true;
    return this.#fits(kind, lane, body) && (this.#parent?.hasRoom(lane, body) ?? true);
  }

  isLarge(body: Uint8Array): boolean {
    return body.length > this.#smallBytes;
  }

  /** Pumps the lane once it has room; only when it has none now. */
  wait(lane: GateLane, body: Uint8Array): void {
    const kind = this.#kindOf(lane, body);
    if (kind === null) return;
    const { waiting } = this.#kinds[kind];
    if (this.#fits(kind, lane, body)) {
      this.forget(lane);
      this.#parent?.wait(lane, body);
      return;
    }
    // A lane that asks again keeps its turn.
    if (!waiting.has(lane)) this.forget(lane);
    waiting.set(lane, body);
  }

  /** A try starts; the result gives its bytes back. */
  start(lane: GateLane, body: Uint8Array): () => void {
    const kind = this.#kindOf(lane, body);
    if (kind === null) return () => undefined;
    this.#change(kind, body, 1);
    return () => {
      this.#change(kind, body, -1);
      this.#wake();
      if (this.#parent !== null) this.#parent.#wake();
    };
  }

  forget(lane: GateLane): void {
    for (const { waiting } of Object.values(this.#kinds)) waiting.delete(lane);
    this.#parent?.forget(lane);
  }

  #kindOf({ proven }: GateLane, body: Uint8Array): Kind | null {
    if (this.isLarge(body)) return proven ? "proven" : "unproven";
    return proven ? null : "small";
  }

  #fits(kind: Kind, { inFlight }: GateLane, body: Uint8Array): boolean {
    const { bytes: ofKind, bodies } = this.#kinds[kind];
    if (ofKind === 0 || bodies.has(body)) return true;
    const { proven, unproven, small } = this.#kinds;
    const half = this.#maxBytes / 2;
    const large = Math.min(unproven.bytes, half * LARGE_SHARE);
    switch (kind) {
      case "proven":
        return proven.bytes + large + body.length <= this.#maxBytes * LARGE_SHARE;
      case "unproven":
        if (unproven.bytes + body.length > half * LARGE_SHARE) return false;
        return unproven.bytes + small.bytes + body.length <= half;
      case "small":
        // The first try of a lane is what lets it prove itself: more than one only while there is plenty.
        return small.bytes + large + body.length <= (inFlight === 0 ? half : half / 2);
      default:
        return kind satisfies never;
    }
  }

  #change(kind: Kind, body: Uint8Array, change: 1 | -1): void {
    const ofKind = this.#kinds[kind];
    const before = ofKind.bodies.get(body) ?? 0;
    const count = before + change;
    if (before === 0) ofKind.bytes += body.length;
    if (count === 0) {
      ofKind.bytes -= body.length;
      ofKind.bodies.delete(body);
    } else ofKind.bodies.set(body, count);
    if (this.#parent !== null) this.#parent.#change(kind, body, change);
  }

  /** Lanes that have room now are pumped, in turn; one that wants more, or finds its process short, waits again. */
  #wake(): void {
    for (const [kind, { waiting }] of Object.entries(this.#kinds) as [Kind, OfKind][]) {
      let inVain = 0;
      for (const [lane, body] of waiting)
        if (this.#fits(kind, lane, body)) {
          waiting.delete(lane);
          lane.pump();
        } else {
          inVain += 1;
          if (inVain === LOOKED_AT) break;
        }
    }
  }
}

function none(): OfKind {
  return { bytes: 0, bodies: new Map(), waiting: new Map() };
}
