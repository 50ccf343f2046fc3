import { UNAVAILABLE, type Lookup, type MaybeLater } from "../../domain/destination.ts";
import type { Logger } from "../../domain/logger.ts";

/** Returns what `lookUp` finds. A failure, thrown or rejected, is logged with the ids in `asked` and becomes `unavailable`. */
export function guardedLookup<T>(
  logger: Logger,
  asked: Readonly<Record<string, string>>,
  lookUp: () => MaybeLater<Lookup<T>>,
): MaybeLater<Lookup<T>> {
  const onError = (error: unknown): Lookup<T> => {
    logger.error({ ...asked, err: error }, "config.lookup_failed");
    return UNAVAILABLE;
  };
  try {
    const found = lookUp();
    return found instanceof Promise ? found.catch(onError) : found;
  } catch (error) {
    return onError(error);
  }
}
