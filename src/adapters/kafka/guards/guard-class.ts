import { createRequire } from "node:module";

const GUARDED = Symbol.for("webhook-relay.kafkajs-guarded");

/**
 * The prototype of a class of kafkajs, which gets no releases any more, to mend a method of it. Null when it has been
 * handed out before: nothing is mended twice. `file` is below the package's `src`, and exports the class.
 */
export function classToGuard(file: string): object | null {
  const { prototype } = loadInternal(file) as {
    prototype: object & { [GUARDED]?: true };
  };
  if (prototype[GUARDED] === true) return null;
  prototype[GUARDED] = true;
  return prototype;
}

/** What a file below the package's `src` exports, of what the package itself does not show. */
export function loadInternal(file: string): unknown {
  return createRequire(import.meta.url)(`kafkajs/src/${file}`);
}
