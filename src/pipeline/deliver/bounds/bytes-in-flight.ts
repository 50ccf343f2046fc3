import type { GateLane } from "./send-gate.ts";

/** How many waiting lanes of one kind may be checked in vain when bytes are given back. */
const MAX_CHECKED_IN_VAIN = 16;
/** The largest body that counts as small, as a share of the process's budget. */
const SMALL_SHARE = 1 / 256;
/** The share of the bytes in flight that large bodies may take: small ones pass beside them. */
const LARGE_SHARE = 3 / 4;

/** Large bodies of proven lanes, large bodies of unproven lanes, and small bodies of unproven lanes. */
type Kind = "proven" | "unproven" | "small";

interface OfKind {
  bytes: number;
  /** How many tries are sending each body: the destinations of an event share it. */
  readonly bodies: Map<Uint8Array, number>;
  /** The body that each waiting lane wants to send next. */
  readonly waiting: Map<GateLane, Uint8Array>;
}

/**
 * The bytes of tries in flight in one partition or in the whole process: the part of the budget that hanging receivers can tie
 * up. Lanes whose latest try did not succeed get at most half of it together, and the large bodies of all lanes three
 * quarters. The first body of each kind passes whatever its size, or it might never be sent. Small bodies of proven lanes are
 * not counted.
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

  /** Returns whether the lane may send this body now. */
  hasRoom(lane: GateLane, body: Uint8Array): boolean {
    const kind = this.#kindOf(lane, body);
    if (kind === null) return true;
    return this.#fits(kind, lane, body) && (this.#parent?.hasRoom(lane, body) ?? true);
  }

  isLarge(body: Uint8Array): boolean {
    return body.length > this.#smallBytes;
  }

  /** Pumps the lane once there is room for the body. To be called only if there is none now. */
  wait(lane: GateLane, body: Uint8Array): void {
    const kind = this.#kindOf(lane, body);
    if (kind === null) return;
    const { waiting } = this.#kinds[kind];
    // A lane that asks again keeps its turn.
    if (this.#fits(kind, lane, body)) {
      this.#forgetHere(lane);
      this.#parent?.wait(lane, body);
      return;
    }
    if (!waiting.has(lane)) this.forget(lane);
    waiting.set(lane, body);
  }

  /** Counts the bytes of a try that starts; the returned function gives them back. */
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
    this.#forgetHere(lane);
    this.#parent?.forget(lane);
  }

  #forgetHere(lane: GateLane): void {
    for (const { waiting } of Object.values(this.#kinds)) waiting.delete(lane);
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
        // A lane proves itself by its first try: it gets more than one only while there is plenty of room.
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

  /** Pumps the lanes that have room now, in turn; one that wants more, or finds no room in the process, waits again. */
  #wake(): void {
    for (const [kind, { waiting }] of Object.entries(this.#kinds) as [Kind, OfKind][]) {
      let inVain = 0;
      for (const [lane, body] of waiting)
        if (this.#fits(kind, lane, body)) {
          waiting.delete(lane);
          lane.pump();
        } else {
          inVain += 1;
          if (inVain === MAX_CHECKED_IN_VAIN) break;
        }
    }
  }
}

function none(): OfKind {
  return { bytes: 0, bodies: new Map(), waiting: new Map() };
}
