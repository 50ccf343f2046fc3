/**
 * What an owner commits before its first try, as metadata: the next owner waits for its `released` marker or out its tries.
 * One that still waits for the tries of the owner before it says until when: it has sent nothing, so whoever
 * follows it meanwhile waits for that same moment, not all over again.
 */
export interface Claim {
  readonly ownerId: string;
  /** Wall clock, ms; null: it may have sent. */
  readonly waitsUntilMs: number | null;
}

const SEPARATOR = " waits until ";

export function encodeClaim({ ownerId, waitsUntilMs }: Claim): string {
  return waitsUntilMs === null ? ownerId : `${ownerId}${SEPARATOR}${Math.ceil(waitsUntilMs)}`;
}

export function decodeClaim(metadata: string): Claim {
  const [ownerId = "", untilText] = metadata.split(SEPARATOR);
  const waitsUntilMs = untilText === undefined ? null : Number(untilText);
  return {
    ownerId,
    waitsUntilMs: Number.isFinite(waitsUntilMs) ? waitsUntilMs : null,
  };
}
