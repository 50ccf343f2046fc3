import { LRUCache } from "lru-cache";
import { chunksOf } from "../domain/chunks.ts";
import type { Clock } from "../domain/clock.ts";
import type { BundleReader, ConfigChange, EndpointBundle } from "../domain/config-store.ts";
import { MISSING, UNAVAILABLE } from "../domain/destination.ts";
import type { DestinationConfig, Lookup, MaybeLater } from "../domain/destination.ts";
import type { EndpointConfig } from "../domain/endpoint.ts";
import type { Logger } from "../domain/logger.ts";
import { within } from "../domain/within.ts";
import { toConfigBundle, type ConfigBundle } from "./bundle-config.ts";
import { makeBundleEntries, storedBytesOf, type BundleEntry } from "./bundle-entries.ts";
import { keysOf, nameOfKey, type BundleKey } from "./bundle-key.ts";
import { makeBundleLoader, type LoadedBatch } from "./bundle-loader.ts";
import type { SecretBox } from "./secret-box.ts";

export interface ConfigCachePorts {
  readonly reader: BundleReader;
  readonly box: SecretBox;
  readonly clock: Pick<Clock, "monotonic" | "schedule">;
  readonly logger: Logger;
  /** Returns false for a token that this installation never made: it is missing, and the store is not asked. */
  readonly isOurToken: (token: string) => boolean;
}

export interface ConfigCacheOptions {
  /** Hard expiry. After half of it, using an entry reloads it in the background. */
  readonly ttlMs: number;
  readonly maxEndpoints?: number;
  readonly maxStoredBytes?: number;
}

/** What a listener is told: the endpoint (`destinationId` null) or one of its destinations changed or is gone. */
interface ConfigChanged {
  readonly endpointId: string;
  readonly destinationId: string | null;
}

/** Lookups return at once on a hit, otherwise a promise that never rejects. */
export interface ConfigCache {
  endpointByToken(token: string): MaybeLater<Lookup<EndpointConfig>>;
  endpoint(id: string): MaybeLater<Lookup<EndpointConfig>>;
  /** Finds a destination of an endpoint that is not deleted. */
  destination(id: string): MaybeLater<Lookup<DestinationConfig>>;
  /** Finds all destinations that are not deleted, whatever their status. */
  destinationsOf(endpointId: string): MaybeLater<Lookup<readonly DestinationConfig[]>>;
  /** Applies a change pushed by the store. */
  apply(change: ConfigChange): void;
  /** Marks everything to be reloaded when next used, since pushes may have been lost, and tells the gap listeners. */
  invalidateAll(): void;
  /**
   * Reloads, a few at a time, whatever may have changed and has not been used since, so that change listeners learn what they missed.
   * @returns whether the store answered throughout
   */
  reload(): Promise<boolean>;
  /**
   * Loads the newest endpoints, a few at a time, so that a process without traffic so far can do without the store when it goes down.
   * @returns whether the store answered throughout
   */
  warm(): Promise<boolean>;
  /** Calls the listener once a lookup will see the change. The returned function removes it. */
  onChange(listener: (changed: ConfigChanged) => void): () => void;
  /**
   * Calls the listener when any change may have been missed, including changes of what is not cached, which change
   * listeners never learn of. The returned function removes it.
   */
  onGap(listener: () => void): () => void;
}

type PartOf<T> = (bundle: ConfigBundle) => T | undefined;

const MAX_ENDPOINTS = 50_000;
const MAX_STORED_BYTES = 128 * 1024 * 1024;
const MAX_ABSENT_KEYS = 20_000;
const WARM_ENDPOINTS = 5_000;
/** Small, since lookups for webhooks wait for the next of these batches: a few milliseconds. */
const LOAD_AT_ONCE = 100;
/** With an expired entry at hand, a store that takes longer counts as unreachable, and for as long again. */
const STALE_AFTER_MS = 1_000;
/**
 * Without one, a store that takes longer than this counts as unreachable: a provider waits ten seconds for its answer,
 * and the log needs some of them.
 */
const UNKNOWN_AFTER_MS = 3_000;

export function makeConfigCache(
  ports: ConfigCachePorts,
  { ttlMs, maxEndpoints = MAX_ENDPOINTS, maxStoredBytes = MAX_STORED_BYTES }: ConfigCacheOptions,
): ConfigCache {
  const { clock, box, logger } = ports;
  const entries = makeBundleEntries({ maxEndpoints, maxStoredBytes });
  /** Keys the store does not know, with the time it was asked. */
  const absent = new LRUCache<string, number>({ max: MAX_ABSENT_KEYS });
  /** Numbers of the latest changes by endpoint id, destination id and token: an answer to an earlier query is not trusted. */
  const changes = new LRUCache<string, number>({ max: MAX_ABSENT_KEYS });
  const listeners = new Set<(changed: ConfigChanged) => void>();
  const gapListeners = new Set<() => void>();
  let lastChange = 0;
  let lastChangeOfAll = 0;
  /** Until then the store counts as hanging: a lane that waited for it anew with every try would make one a second. */
  let hangsUntilMs = 0;
  const loader = makeBundleLoader({
    reader: ports.reader,
    clock,
    logger,
    lastChange: () => lastChange,
    onLoaded,
  });

  function changedSince(number: number, ...names: readonly string[]): boolean {
    return lastChangeOfAll > number || names.some((name) => (changes.get(name) ?? 0) > number);
  }

  function open(rows: EndpointBundle, before: ConfigBundle | null): ConfigBundle | null {
    try {
      return toConfigBundle(rows, box, before);
    } catch (error) {
      logger.error({ endpointId: rows.endpoint.id, err: error }, "config.not_readable");
      return null;
    }
  }

  /** Takes in what the store answered. @returns what it found of what was asked, even where the cache has no room for all of it */
  function onLoaded(batch: LoadedBatch): ReadonlyMap<string, BundleEntry> {
    const found = new Map<string, BundleEntry>();
    for (const rows of batch.bundles) {
      const entry = putLoaded(rows, batch);
      for (const key of keysOf(entry.endpointId, entry.token, entry.destinationIds))
        found.set(nameOfKey(key), entry);
    }
    for (const key of batch.keys) {
      const name = nameOfKey(key);
      if (!found.has(name)) noteAbsent(key, batch);
      else {
        absent.delete(name);
        // Finding them in the order in which they were asked for makes that the order of their last use.
        entries.find(key);
      }
    }
    return found;
  }

  /** Puts an endpoint into the cache as it was loaded, and tells what differs from what was known of it. */
  function putLoaded(rows: EndpointBundle, { askedAtMs, askedAtChange }: LoadedBatch): BundleEntry {
    const { id: endpointId, token } = rows.endpoint;
    const before = entries.find({ kind: "endpoint", value: endpointId });
    const entry: BundleEntry = {
      endpointId,
      token,
      destinationIds: rows.destinations.map(({ id }) => id),
      bundle: open(rows, before?.bundle ?? null),
      loadedAtMs: askedAtMs,
      storedBytes: storedBytesOf(rows),
      dirty: changedSince(askedAtChange, endpointId),
    };
    entries.put(entry);
    if (before !== undefined) tellDifferences(endpointId, before.bundle, entry.bundle);
    return entry;
  }

  /** Notes that the store does not know a key. */
  function noteAbsent(key: BundleKey, { askedAtMs, askedAtChange }: LoadedBatch): void {
    if (!changedSince(askedAtChange, key.value)) absent.set(nameOfKey(key), askedAtMs);
    const before = entries.find(key);
    if (before === undefined) return;
    // Its endpoint is gone. (A destination that is gone left the index when its endpoint was last put.)
    entries.remove(before.endpointId);
    tellDifferences(before.endpointId, before.bundle, null);
  }

  function tell(changed: ConfigChanged): void {
    for (const listener of listeners)
      try {
        listener(changed);
      } catch (error) {
        logger.error({ ...changed, err: error }, "config.change_not_taken");
      }
  }

  /** Tells the listeners of changes that the store did not push, or pushed while nobody listened. */
  function tellDifferences(
    endpointId: string,
    before: ConfigBundle | null,
    after: ConfigBundle | null,
  ): void {
    const ids = new Set([...(before?.revisions.keys() ?? []), ...(after?.revisions.keys() ?? [])]);
    for (const id of ids) {
      if (before?.revisions.get(id) === after?.revisions.get(id)) continue;
      tell({ endpointId, destinationId: id === endpointId ? null : id });
    }
  }

  function lookup<T>(key: BundleKey, pick: PartOf<T>): MaybeLater<Lookup<T>> {
    const entry = entries.find(key);
    if (entry !== undefined) {
      const ageMs = clock.monotonic() - entry.loadedAtMs;
      if (!entry.dirty && ageMs < ttlMs) {
        if (ageMs > ttlMs / 2) void loader.load({ kind: "endpoint", value: entry.endpointId });
        return answerFrom(entry, pick);
      }
      if (loader.isDown() || clock.monotonic() < hangsUntilMs) return answerFrom(entry, pick);
      return loadAnew(key, entry, pick);
    }
    const askedAtMs = absent.get(nameOfKey(key));
    if (askedAtMs !== undefined && clock.monotonic() - askedAtMs < ttlMs) return MISSING;
    if (key.kind === "token" && !ports.isOurToken(key.value)) return MISSING;
    if (loader.isDown()) return UNAVAILABLE;
    const loading = within(loader.load(key), UNKNOWN_AFTER_MS, () => UNAVAILABLE, clock);
    return loading.then((loaded) => answerFromLoaded(loaded, key, pick));
  }

  async function loadAnew<T>(
    key: BundleKey,
    stale: BundleEntry,
    pick: PartOf<T>,
  ): Promise<Lookup<T>> {
    const loading = loader.load({ kind: "endpoint", value: stale.endpointId });
    const loaded = await within(loading, STALE_AFTER_MS, () => "late" as const, clock);
    if (loaded === "late") hangsUntilMs = clock.monotonic() + STALE_AFTER_MS;
    if (loaded === "late" || loaded.kind === "unavailable") return answerFrom(stale, pick);
    return answerFromLoaded(loaded, key, pick);
  }

  /** Loads the endpoints that are dirty or not cached; returns false as soon as the store cannot be asked. */
  async function loadStale(endpointIds: readonly string[]): Promise<boolean> {
    for (const some of chunksOf(endpointIds, LOAD_AT_ONCE)) {
      const stale = some
        .map((value) => ({ kind: "endpoint", value }) as const)
        .filter((key) => entries.find(key)?.dirty !== false);
      const loaded = await Promise.all(stale.map((key) => loader.load(key)));
      if (loaded.some(({ kind }) => kind === "unavailable")) return false;
    }
    return true;
  }

  return {
    endpointByToken: (token) =>
      lookup({ kind: "token", value: token }, (bundle) => bundle.endpoint),
    endpoint: (id) => lookup({ kind: "endpoint", value: id }, (bundle) => bundle.endpoint),
    destination: (id) =>
      lookup({ kind: "destination", value: id }, (bundle) => bundle.destinationsById.get(id)),
    destinationsOf: (endpointId) =>
      lookup({ kind: "endpoint", value: endpointId }, (bundle) => bundle.destinations),
    apply({ endpointId, token, destinationId }) {
      lastChange += 1;
      for (const key of keysOf(endpointId, token, destinationId === null ? [] : [destinationId])) {
        changes.set(key.value, lastChange);
        absent.delete(nameOfKey(key));
      }
      const key: BundleKey = { kind: "endpoint", value: endpointId };
      const entry = entries.find(key);
      if (entry !== undefined) {
        entry.dirty = true;
        // So that the next webhook finds it loaded.
        void loader.load(key);
      }
      tell({ endpointId, destinationId });
    },
    invalidateAll() {
      lastChange += 1;
      lastChangeOfAll = lastChange;
      absent.clear();
      for (const entry of entries.all()) entry.dirty = true;
      for (const listener of gapListeners) listener();
    },
    reload: () => loadStale(Array.from(entries.all(), ({ endpointId }) => endpointId)),
    async warm() {
      const ids = await ports.reader.newestEndpoints(WARM_ENDPOINTS).catch(() => null);
      return ids !== null && loadStale(ids);
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    onGap(listener) {
      gapListeners.add(listener);
      return () => gapListeners.delete(listener);
    },
  };
}

function answerFrom<T>(entry: BundleEntry, pick: PartOf<T>): Lookup<T> {
  if (entry.bundle === null) return UNAVAILABLE;
  const value = pick(entry.bundle);
  return value === undefined ? MISSING : { kind: "found", value };
}

/** Answers for a key from what the store answered for it, or for the endpoint that had it: its token may be another one by now. */
function answerFromLoaded<T>(
  loaded: Lookup<BundleEntry>,
  key: BundleKey,
  pick: PartOf<T>,
): Lookup<T> {
  if (loaded.kind !== "found") return loaded;
  if (key.kind === "token" && loaded.value.token !== key.value) return MISSING;
  return answerFrom(loaded.value, pick);
}
