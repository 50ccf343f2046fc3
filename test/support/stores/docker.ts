import { existsSync } from "node:fs";
import { GenericContainer, getContainerRuntimeClient, Wait } from "testcontainers";
import { freePorts } from "./free-port.ts";

/** Tells whether a Docker engine answers; the client alone is not enough. */
export async function dockerAnswers(): Promise<boolean> {
  if (process.env["DOCKER_HOST"] === undefined && !existsSync("/var/run/docker.sock")) return false;
  try {
    await getContainerRuntimeClient();
    return true;
  } catch {
    return false;
  }
}

/** Starts one broker in a container, reachable on loopback. */
export async function startKafkaContainer(): Promise<AsyncDisposable & { brokers: string[] }> {
  const [port = 0] = await freePorts(1);
  const container = await new GenericContainer("apache/kafka:4.1.0")
    .withExposedPorts({ container: port, host: port })
    .withEnvironment({
      KAFKA_NODE_ID: "1",
      KAFKA_PROCESS_ROLES: "broker,controller",
      KAFKA_CONTROLLER_QUORUM_VOTERS: "1@localhost:9093",
      KAFKA_LISTENERS: `PLAINTEXT://0.0.0.0:${port},CONTROLLER://localhost:9093`,
      KAFKA_ADVERTISED_LISTENERS: `PLAINTEXT://127.0.0.1:${port}`,
      KAFKA_CONTROLLER_LISTENER_NAMES: "CONTROLLER",
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: "1",
      KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS: "0",
      KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS: "1000",
      KAFKA_AUTO_CREATE_TOPICS_ENABLE: "false",
    })
    .withWaitStrategy(Wait.forLogMessage(/Kafka Server started/))
    .start();
  return {
    brokers: [`127.0.0.1:${port}`],
    [Symbol.asyncDispose]: async () => void (await container.stop()),
  };
}

export async function startPostgresContainer(): Promise<AsyncDisposable & { url: string }> {
  const container = await new GenericContainer("postgres:17")
    .withExposedPorts(5432)
    .withEnvironment({ POSTGRES_PASSWORD: "relay", POSTGRES_USER: "relay", POSTGRES_DB: "relay" })
    .withWaitStrategy(Wait.forLogMessage(/database system is ready to accept connections/, 2))
    .start();
  return {
    url: `postgres://relay:relay@127.0.0.1:${container.getMappedPort(5432)}/relay`,
    [Symbol.asyncDispose]: async () => void (await container.stop()),
  };
}
