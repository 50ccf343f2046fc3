import { hash, randomBytes } from "node:crypto";

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

/** Random bytes for 512 ids. */
const POOL_BYTES = 5_120;

/** Encodes 48 bits of milliseconds as ten sortable characters (ULID specification). */
export function encodeTime(timeMs: number): string {
  let rest = Math.floor(timeMs);
  let text = "";
  for (let index = 0; index < TIME_CHARACTERS; index += 1) {
    text = ALPHABET.charAt(rest % 32) + text;
    rest = Math.floor(rest / 32);
  }
  return text;
}

/** The two characters for each value of ten bits. */
const PAIRS = Array.from(
  { length: 1024 },
  (_, bits) => ALPHABET.charAt(bits >> 5) + ALPHABET.charAt(bits & 31),
);

/** Encodes the 10 bytes at `at` as sixteen characters. */
function encodeRandom(bytes: Uint8Array, at: number): string {
  return encodeFive(bytes, at) + encodeFive(bytes, at + 5);
}

function encodeFive(bytes: Uint8Array, at: number): string {
  const [a, b, c] = [bytes[at]!, bytes[at + 1]!, bytes[at + 2]!];
  const [d, e] = [bytes[at + 3]!, bytes[at + 4]!];
  return (
    PAIRS[(a << 2) | (b >> 6)]! +
    PAIRS[((b & 63) << 4) | (c >> 4)]! +
    PAIRS[((c & 15) << 6) | (d >> 2)]! +
    PAIRS[((d & 3) << 8) | e]!
  );
}

/** Makes a generator of `prefix + ULID` ids whose time is `timeMs`. Draws random bytes in blocks, since each draw costs a system call. */
export function makeIdGenerator(): (kind: IdKind, timeMs: number) => string {
  let pool: Uint8Array = new Uint8Array(0);
  let used = 0;
  let encodedMs = Number.NaN;
  let encodedTime = "";
  return (kind, timeMs) => {
    if (used + 10 > pool.length) {
      pool = randomBytes(POOL_BYTES);
      used = 0;
    }
    if (timeMs !== encodedMs) {
      encodedMs = timeMs;
      encodedTime = encodeTime(timeMs);
    }
    const id = ID_PREFIXES[kind] + encodedTime + encodeRandom(pool, used);
    used += 10;
    return id;
  };
}

/** Returns the time in an id, or null when it is not `prefix + ULID`. */
export function timeOfId(kind: IdKind, id: string): number | null {
  const prefix = ID_PREFIXES[kind];
  const ulid = id.slice(prefix.length);
  if (!id.startsWith(prefix) || !ULID_PATTERN.test(ulid)) return null;
  let timeMs = 0;
  for (let index = 0; index < TIME_CHARACTERS; index += 1)
    timeMs = timeMs * 32 + ALPHABET.indexOf(ulid.charAt(index));
  return timeMs;
}

/** Returns the `att_` id that the same try (or deferral) always gets, sortable by the event's time. */
export function attemptId(eventReceivedAtMs: number, identity: string): string {
  const digest = hash("sha256", identity, "buffer");
  return ID_PREFIXES.attempt + encodeTime(eventReceivedAtMs) + encodeRandom(digest, 0);
}
