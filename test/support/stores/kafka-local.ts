import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { startProcess, type ServerProcess } from "./child.ts";
import { freePorts } from "./free-port.ts";
import { kafkaJars } from "./kafka-jars.ts";

const CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg";
const JVM = {
  /** Starts quickly and stays small. */
  small: ["-Xmx384m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"],
  /** The options of Apache's own `kafka-server-start.sh`, for measurements. */
  asShipped: [
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
  ],
} as const;

export interface LocalKafka extends AsyncDisposable {
  /** `host:port` of every broker. */
  readonly brokers: readonly string[];
  /** The port on which each broker listens, bypassing any proxy. */
  readonly ports: readonly number[];
  /** Returns the folder in which a broker keeps its data. */
  dataDir(broker: number): string;
  pid(broker: number): number;
  isRunning(broker: number): boolean;
  /** Ends a broker abruptly, as a crash does. */
  kill(broker: number): Promise<void>;
  /** Freezes a broker: connections stay open, nothing answers. */
  freeze(broker: number): void;
  thaw(broker: number): void;
  /** Starts a killed broker again on its old port with its old data. */
  restart(broker: number): Promise<void>;
}

export interface LocalKafkaOptions {
  /** Ports that clients are told to use, one per broker: those of proxies in front. Brokers talk to each other without them. */
  readonly advertisedPorts?: readonly number[];
  /** The folders in which brokers keep their data; fresh ones when absent. */
  readonly dataDirs?: readonly string[];
  /** `small` when absent. */
  readonly jvm?: keyof typeof JVM;
}

/** Starts real brokers in KRaft mode on loopback, each of them also a controller. */
export async function startLocalKafka(
  count: 1 | 3,
  extra: Readonly<Record<string, string>> = {},
  options: LocalKafkaOptions = {},
): Promise<LocalKafka> {
  const jars = await kafkaJars();
  const dir = mkdtempSync(join(tmpdir(), "relay-kafka-"));
  const ports = await freePorts(count * 3);
  const ids = Array.from({ length: count }, (_, index) => index + 1);
  const clientPort = (id: number) => ports[id - 1] ?? 0;
  const controllerPort = (id: number) => ports[count + id - 1] ?? 0;
  const internalPort = (id: number) => ports[2 * count + id - 1] ?? 0;
  const advertisedPort = (id: number) => options.advertisedPorts?.[id - 1] ?? clientPort(id);
  const voters = ids.map((id) => `${id}@127.0.0.1:${controllerPort(id)}`).join(",");
  const processes = new Map<number, ServerProcess>();
  const javaArgs = (main: string, ...args: string[]) => [
    ...JVM[options.jvm ?? "small"],
    "-Dlog4j2.level=ERROR",
    "-cp",
    `${jars}/*`,
    main,
    ...args,
  ];
  const java =
    process.env["JAVA_HOME"] === undefined ? "java" : join(process.env["JAVA_HOME"], "bin", "java");
  const dataDir = (id: number) => options.dataDirs?.[id - 1] ?? join(dir, `data-${id}`);
  const configOf = (id: number) => join(dir, `broker-${id}.properties`);

  for (const id of ids) {
    const settings: Record<string, string> = {
      "process.roles": "broker,controller",
      "node.id": String(id),
      "controller.quorum.voters": voters,
      listeners: `PLAINTEXT://127.0.0.1:${clientPort(id)},INTERNAL://127.0.0.1:${internalPort(id)},CONTROLLER://127.0.0.1:${controllerPort(id)}`,
      "advertised.listeners": `PLAINTEXT://127.0.0.1:${advertisedPort(id)},INTERNAL://127.0.0.1:${internalPort(id)}`,
      "controller.listener.names": "CONTROLLER",
      "inter.broker.listener.name": "INTERNAL",
      "listener.security.protocol.map":
        "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
      "log.dirs": dataDir(id),
      "offsets.topic.replication.factor": String(count),
      "offsets.topic.num.partitions": "4",
      "transaction.state.log.replication.factor": String(count),
      "transaction.state.log.min.isr": "1",
      "group.initial.rebalance.delay.ms": "0",
      "group.min.session.timeout.ms": "1000",
      "auto.create.topics.enable": "false",
      "num.network.threads": "2",
      "num.io.threads": "4",
      "replica.lag.time.max.ms": "5000",
      "broker.session.timeout.ms": "4000",
      "broker.heartbeat.interval.ms": "1000",
      "controller.quorum.election.timeout.ms": "1000",
      "controller.quorum.fetch.timeout.ms": "2000",
      "log.cleaner.dedupe.buffer.size": "16777216",
      "log.index.size.max.bytes": "1048576",
      ...extra,
    };
    writeFileSync(
      configOf(id),
      Object.entries(settings)
        .map(([key, value]) => `${key}=${value}`)
        .join("\n"),
    );
  }
  await Promise.all(
    ids.map((id) =>
      promisify(execFile)(
        java,
        javaArgs("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", configOf(id)),
      ),
    ),
  ).catch((error: unknown) => {
    rmSync(dir, { recursive: true, force: true });
    throw explainNoJava(java, error);
  });

  const start = async (id: number) => {
    const server = startProcess(java, javaArgs("kafka.Kafka", configOf(id)), {});
    processes.set(id, server);
    await waitForPort(clientPort(id), server);
  };
  const dispose = async () => {
    await Promise.all([...processes.values()].map((server) => server[Symbol.asyncDispose]()));
    rmSync(dir, { recursive: true, force: true });
  };
  try {
    await Promise.all(ids.map((id) => start(id)));
  } catch (error) {
    await dispose();
    throw error;
  }
  return {
    brokers: ids.map((id) => `127.0.0.1:${advertisedPort(id)}`),
    ports: ids.map(clientPort),
    dataDir,
    pid: (id) => processes.get(id)?.pid ?? -1,
    isRunning: (id) => processes.get(id)?.exited === false,
    kill: async (id) => processes.get(id)?.[Symbol.asyncDispose](),
    freeze: (id) => processes.get(id)?.signal("SIGSTOP"),
    thaw: (id) => processes.get(id)?.signal("SIGCONT"),
    restart: start,
    [Symbol.asyncDispose]: dispose,
  };
}

async function waitForPort(port: number, server: ServerProcess): Promise<void> {
  const endMs = performance.now() + 60_000;
  while (!(await accepts(port))) {
    if (server.exited || performance.now() > endMs)
      throw new Error(`Kafka did not start:\n${server.output()}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

function explainNoJava(java: string, error: unknown): unknown {
  if (!(error instanceof Error && "code" in error && error.code === "ENOENT")) return error;
  return new Error(
    `${java} was not found: install Java 17 or newer (apt-get install default-jre-headless), or set JAVA_HOME to it`,
    { cause: error },
  );
}
