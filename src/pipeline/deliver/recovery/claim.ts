/**
 * Names the owner of a partition, as metadata of a commit that it makes before its first try. The next owner looks for that
 * owner's `released` marker in the log; without one it waits until tries that may be in flight must have ended.
 * An owner that is still waiting so commits until when. It has sent nothing yet, so an owner that follows it meanwhile waits
 * for that same moment, and not for the whole time again.
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
