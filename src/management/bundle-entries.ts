import { LRUCache } from "lru-cache";
import type { EndpointBundle } from "../domain/config-store.ts";
import type { ConfigBundle } from "./bundle-config.ts";
import type { BundleKey } from "./bundle-key.ts";

export interface BundleEntry {
  readonly endpointId: string;
  readonly token: string;
  readonly destinationIds: readonly string[];
  /** Null when its secrets cannot be opened: then nothing can be verified or signed. */
  readonly bundle: ConfigBundle | null;
  /** Monotonic time; nothing in the entry is older. */
  readonly loadedAtMs: number;
  /** Size of its rows as stored; in memory they take several times as much. */
  readonly storedBytes: number;
  /** Whether it may have changed since it was loaded. */
  dirty: boolean;
}

/** Bundles by endpoint id, token and destination id; the least recently used are evicted first. */
export interface BundleEntries {
  find(key: BundleKey): BundleEntry | undefined;
  put(entry: BundleEntry): void;
  remove(endpointId: string): void;
  /** Yields the least recently used first, so that using all of them in this order leaves it unchanged. */
  all(): Iterable<BundleEntry>;
}

export interface BundleLimits {
  readonly maxEndpoints: number;
  /** A configuration may be 64 KiB, so limiting the number of endpoints alone would not bound memory. */
  readonly maxStoredBytes: number;
}

export function makeBundleEntries({ maxEndpoints, maxStoredBytes }: BundleLimits): BundleEntries {
  const endpointOfToken = new Map<string, string>();
  const endpointOfDestination = new Map<string, string>();
  const byEndpoint = new LRUCache<string, BundleEntry>({
    max: maxEndpoints,
    maxSize: maxStoredBytes,
    // An entry larger than the limit is kept alone; otherwise it would be missing.
    sizeCalculation: ({ storedBytes }) => Math.min(storedBytes, maxStoredBytes),
    // Also called for an entry that is overwritten, before the new one is indexed.
    dispose(entry) {
      endpointOfToken.delete(entry.token);
      for (const id of entry.destinationIds) endpointOfDestination.delete(id);
    },
  });

  function endpointIdOf(key: BundleKey): string | undefined {
    switch (key.kind) {
      case "token":
        return endpointOfToken.get(key.value);
      case "endpoint":
        return key.value;
      case "destination":
        return endpointOfDestination.get(key.value);
      default:
        return key.kind satisfies never;
    }
  }

  return {
    find(key) {
      const endpointId = endpointIdOf(key);
      return endpointId === undefined ? undefined : byEndpoint.get(endpointId);
    },
    put(entry) {
      byEndpoint.set(entry.endpointId, entry);
      endpointOfToken.set(entry.token, entry.endpointId);
      for (const id of entry.destinationIds) endpointOfDestination.set(id, entry.endpointId);
    },
    remove(endpointId) {
      byEndpoint.delete(endpointId);
    },
    *all() {
      for (const entry of byEndpoint.rvalues()) if (entry !== undefined) yield entry;
    },
  };
}

/** Estimated size of a row's ids, states and times. */
const ROW_BYTES = 256;

export function storedBytesOf({ endpoint, destinations }: EndpointBundle): number {
  let bytes = ROW_BYTES + endpoint.sealed.byteLength;
  for (const { sealed, receiverUrl } of destinations)
    bytes += ROW_BYTES + sealed.byteLength + receiverUrl.length;
  return bytes;
}
