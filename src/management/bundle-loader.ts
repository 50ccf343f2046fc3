import type { BundleReader, EndpointBundle } from "../domain/config-store.ts";
import type { Clock } from "../domain/clock.ts";
import { MISSING, UNAVAILABLE, type Lookup } from "../domain/destination.ts";
import { makeFailureWatch } from "../domain/failure-watch.ts";
import type { Logger } from "../domain/logger.ts";
import { toError } from "../domain/thrown.ts";
import type { BundleEntry } from "./bundle-entries.ts";
import { nameOfKey, type BundleKey } from "./bundle-key.ts";

export interface LoadedBatch {
  readonly keys: readonly BundleKey[];
  readonly bundles: readonly EndpointBundle[];
  /** Monotonic time just before the query: what was read is not older. */
  readonly askedAtMs: number;
  /** Number of the last change known at that time. */
  readonly askedAtChange: number;
}

export interface BundleLoader {
  /**
   * Loads a key; never rejects. `unavailable`: the store could not be asked. Equal keys share one query, even one underway,
   * unless something has changed since it was sent.
   */
  load(key: BundleKey): Promise<Lookup<BundleEntry>>;
  /** Returns true for a while after a failure, during which the store is not queried. */
  isDown(): boolean;
}

const MAX_BATCH_KEYS = 500;
const MAX_WAITING_KEYS = 20_000;
/** How long the store is left alone after a failure. */
const PAUSE_AFTER_FAILURE_MS = 1_000;

interface Waiting {
  readonly key: BundleKey;
  readonly promise: Promise<Lookup<BundleEntry>>;
  readonly resolve: (loaded: Lookup<BundleEntry>) => void;
}

interface Question {
  readonly entries: ReadonlyMap<string, Waiting>;
  /** Number of the last change known when it was sent. */
  readonly askedAtChange: number;
}

/**
 * Makes a loader that sends the store one query at a time and collects further keys for the next one, so that any
 * number of requests makes at most one query per round trip.
 */
export function makeBundleLoader(ports: {
  readonly reader: BundleReader;
  readonly clock: Pick<Clock, "monotonic">;
  readonly logger: Logger;
  readonly lastChange: () => number;
  /** Takes in what was loaded, and returns the entries of the keys that were found, by their names. */
  readonly onLoaded: (batch: LoadedBatch) => ReadonlyMap<string, BundleEntry>;
}): BundleLoader {
  const { clock } = ports;
  const waiting = new Map<string, Waiting>();
  let underway: Question | null = null;
  let asking = false;
  let downUntilMs = -Infinity;
  let failedSinceMs: number | null = null;
  const watch = makeFailureWatch({
    clock,
    failed: (fields) => ports.logger.warn(fields, "config.load_failed"),
    restored: (fields) => ports.logger.info(fields, "config.load_restored"),
  });

  /** Returns null when the store could not be asked. */
  async function ask({
    entries,
    askedAtChange,
  }: Question): Promise<ReadonlyMap<string, BundleEntry> | null> {
    const keys = [...entries.values()].map((entry) => entry.key);
    const valuesOf = (kind: BundleKey["kind"]) =>
      keys.filter((key) => key.kind === kind).map((key) => key.value);
    const askedAtMs = clock.monotonic();
    try {
      const bundles = await ports.reader.bundles({
        tokens: valuesOf("token"),
        endpointIds: valuesOf("endpoint"),
        destinationIds: valuesOf("destination"),
      });
      tellRestored();
      return ports.onLoaded({ keys, bundles, askedAtMs, askedAtChange });
    } catch (error) {
      failedSinceMs ??= askedAtMs;
      downUntilMs = clock.monotonic() + PAUSE_AFTER_FAILURE_MS;
      watch.onError(toError(error));
      return null;
    }
  }

  function tellRestored(): void {
    if (failedSinceMs === null) return;
    watch.onRestored(Math.round(clock.monotonic() - failedSinceMs));
    failedSinceMs = null;
  }

  async function askAll(): Promise<void> {
    asking = true;
    while (waiting.size > 0) {
      const entries = new Map([...waiting].slice(0, MAX_BATCH_KEYS));
      for (const name of entries.keys()) waiting.delete(name);
      underway = { entries, askedAtChange: ports.lastChange() };
      const found = isDown() ? null : await ask(underway);
      underway = null;
      for (const [name, { resolve }] of entries)
        resolve(found === null ? UNAVAILABLE : lookupOf(found.get(name)));
    }
    asking = false;
  }

  function isDown(): boolean {
    return clock.monotonic() < downUntilMs;
  }

  return {
    isDown,
    async load(key) {
      if (isDown()) return UNAVAILABLE;
      const name = nameOfKey(key);
      const asked =
        underway?.askedAtChange === ports.lastChange() ? underway.entries.get(name) : undefined;
      const known = asked ?? waiting.get(name);
      if (known !== undefined) return known.promise;
      if (waiting.size >= MAX_WAITING_KEYS) return UNAVAILABLE;
      let resolve: Waiting["resolve"] = () => undefined;
      const promise = new Promise<Lookup<BundleEntry>>((settle) => {
        resolve = settle;
      });
      waiting.set(name, { key, promise, resolve });
      // Started in a microtask, so that everything requested in one turn makes one query.
      if (!asking) {
        asking = true;
        queueMicrotask(() => void askAll());
      }
      return promise;
    },
  };
}

function lookupOf(entry: BundleEntry | undefined): Lookup<BundleEntry> {
  return entry === undefined ? MISSING : { kind: "found", value: entry };
}
