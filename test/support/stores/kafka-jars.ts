import { execFile } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

export const KAFKA_VERSION = "4.1.0";
const LOG4J_VERSION = "2.24.3";

const POM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>relay.test</groupId><artifactId>kafka-broker</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>${KAFKA_VERSION}</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>${LOG4J_VERSION}</version></dependency>
  </dependencies>
</project>
`;

function storesCacheDir(): string {
  return process.env["RELAY_STORES_CACHE"] ?? join(homedir(), ".cache", "webhook-relay");
}

/** Returns the folder of the broker's jars, cached or fetched by Maven (about 45 MB, once). @throws {Error} that says what is missing */
export async function kafkaJars(): Promise<string> {
  const jars = join(storesCacheDir(), `kafka-${KAFKA_VERSION}`);
  if (existsSync(jars)) return jars;
  // Use a private folder, renamed when complete: two runs may fetch at the same time.
  const work = join(storesCacheDir(), `fetch-${process.pid}-${Date.now()}`);
  mkdirSync(work, { recursive: true });
  try {
    writeFileSync(join(work, "pom.xml"), POM);
    await promisify(execFile)(
      "mvn",
      ["-q", "-B", "dependency:copy-dependencies", `-DoutputDirectory=${join(work, "jars")}`],
      { cwd: work, timeout: 280_000 },
    );
    try {
      renameSync(join(work, "jars"), jars);
    } catch (error) {
      if (!existsSync(jars)) throw error;
    }
    return jars;
  } catch (error) {
    throw new Error("cannot fetch Kafka: it needs Maven (mvn), Java 17 and Maven Central", {
      cause: error,
    });
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
