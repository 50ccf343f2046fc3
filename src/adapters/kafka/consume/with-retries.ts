import { setTimeout as sleep } from "node:timers/promises";
import type { Cluster } from "kafkajs";
import { LogError } from "../../../domain/log.ts";

const TRIES = 10;
const RETRY_MS = 200;

/** Retries a few times before an error counts: leaders move and connections end. */
export async function withRetries<T>(
  cluster: Cluster,
  isClosed: (() => boolean) | undefined,
  work: () => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    if (isClosed?.() === true) throw new LogError("log_closed", "the partition is another owner's");
    try {
      return await work();
    } catch (error) {
      if (attempt >= TRIES)
        throw new LogError("log_unavailable", "the log could not be read", { cause: error });
      await sleep(RETRY_MS);
      await cluster.refreshMetadata().catch(() => undefined);
    }
  }
}
