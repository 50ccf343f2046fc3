import { createHash, randomBytes } from "node:crypto";

const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const TIME_CHARACTERS = 10;
const ULID_PATTERN = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;

export const ID_PREFIXES = {
  project: "prj_",
  endpoint: "ep_",
  destination: "dst_",
  event: "evt_",
  attempt: "att_",
  organization: "org_",
  key: "key_",
} as const;
export type IdKind = keyof typeof ID_PREFIXES;

/** Ten characters that hold 48 bits of milliseconds, sortable (ULID specification). */
export function encodeTime(timeMs: number): string {
  let rest = Math.floor(timeMs);
  let text = "";
  for (let index = 0; index < TIME_CHARACTERS; index += 1) {
    text = ALPHABET.charAt(rest % 32) + text;
    rest = Math.floor(rest / 32);
  }
  return text;
}

/** Sixteen characters from 10 bytes. */
function encodeRandom(bytes: Uint8Array): string {
  let text = "";
  let bits = 0;
  let value = 0;
  for (const byte of bytes) {
    value = (value << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += ALPHABET.charAt((value >>> bits) & 31);
      value &= (1 << bits) - 1;
    }
  }
  return text;
}

/** Makes `prefix + ULID`; the id's time is `timeMs`. Random bytes are drawn in blocks, since one draw costs a system call. */
export function makeIdGenerator(
  randomSource: (size: number) => Uint8Array = randomBytes,
): (kind: IdKind, timeMs: number) => string {
  let pool: Uint8Array = new Uint8Array(0);
  let used = 0;
  return (kind, timeMs) => {
    if (used + 10 > pool.length) {
      pool = randomSource(5_120);
      used = 0;
    }
    const id =
      ID_PREFIXES[kind] + encodeTime(timeMs) + encodeRandom(pool.subarray(used, used + 10));
    used += 10;
    return id;
  };
}

/** The time inside an id, or null when it is not `prefix + ULID`. */
export function timeOfId(kind: IdKind, id: string): number | null {
  const prefix = ID_PREFIXES[kind];
  const ulid = id.slice(prefix.length);
  if (!id.startsWith(prefix) || !ULID_PATTERN.test(ulid)) return null;
  let timeMs = 0;
  for (let index = 0; index < TIME_CHARACTERS; index += 1)
    timeMs = timeMs * 32 + ALPHABET.indexOf(ulid.charAt(index));
  return timeMs;
}

/** `att_` id that the same try (or deferral) always gets, sortable by the event's time. */
export function attemptId(eventReceivedAtMs: number, identity: string): string {
  const digest = createHash("sha256").update(identity).digest();
  return ID_PREFIXES.attempt + encodeTime(eventReceivedAtMs) + encodeRandom(digest.subarray(0, 10));
}
