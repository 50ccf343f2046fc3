/** What a bundle is looked up by: its endpoint's id or token, or the id of one of its destinations. */
export interface BundleKey {
  readonly kind: "endpoint" | "token" | "destination";
  readonly value: string;
}

/** Returns a key as one text, for maps. */
export function nameOfKey({ kind, value }: BundleKey): string {
  return `${kind} ${value}`;
}

/** Returns the keys of an endpoint and of these of its destinations. */
export function keysOf(
  endpointId: string,
  token: string,
  destinationIds: readonly string[],
): readonly BundleKey[] {
  return [
    { kind: "endpoint", value: endpointId },
    { kind: "token", value: token },
    ...destinationIds.map((value) => ({ kind: "destination", value }) as const),
  ];
}
