import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it, vi } from "vitest";
import { KAFKA_VERSION } from "../support/stores/kafka-jars.ts";
import { startLocalKafka } from "../support/stores/kafka-local.ts";

afterEach(() => vi.unstubAllEnvs());

it("a Kafka without Java says what to install: it said spawn java ENOENT", async () => {
  const cache = await mkdtemp(join(tmpdir(), "relay-no-java-"));
  await mkdir(join(cache, `kafka-${KAFKA_VERSION}`));
  vi.stubEnv("RELAY_STORES_CACHE", cache);
  vi.stubEnv("JAVA_HOME", cache);
  await expect(startLocalKafka(1)).rejects.toThrow(/bin\/java was not found: install Java 17/);
  await rm(cache, { recursive: true });
});
