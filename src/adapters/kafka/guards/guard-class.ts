import { createRequire } from "node:module";

const GUARDED = Symbol.for("webhook-relay.kafkajs-guarded");

/**
 * Returns the prototype of a class of kafkajs, which gets no more releases, so that a method of it can be fixed. Null if it was
 * handed out before: nothing is fixed twice. `file` is below the package's `src`, and exports the class.
 */
export function classToGuard(file: string): object | null {
  const { prototype } = loadInternal(file) as {
    prototype: object & { [GUARDED]?: true };
  };
  if (prototype[GUARDED] === true) return null;
  prototype[GUARDED] = true;
  return prototype;
}

/** Returns what a file below the package's `src` exports, for what the package itself does not export. */
export function loadInternal(file: string): unknown {
  return createRequire(import.meta.url)(`kafkajs/src/${file}`);
}
