import { once } from "node:events";
import { createRequire } from "node:module";
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";

interface Encoder {
  readonly buffer: Buffer;
  writeInt16(value: number): Encoder;
  writeInt32(value: number): Encoder;
  writeInt64(value: number): Encoder;
  writeBoolean(value: boolean): Encoder;
  writeString(value: string | null): Encoder;
  writeArray(values: readonly unknown[]): Encoder;
}
interface Decoder {
  readInt16(): number;
  readInt32(): number;
  readInt64(): unknown;
  readString(): string;
  readArray<T>(read: (decoder: Decoder) => T): T[];
}

const load = createRequire(import.meta.url);
const Encoding: new () => Encoder = load("kafkajs/src/protocol/encoder.js");
const Decoding: new (data: Buffer) => Decoder = load("kafkajs/src/protocol/decoder.js");
const SIZE_BYTES = 4;
const LIST_OFFSETS = 2;
const METADATA = 3;
const API_VERSIONS = 18;
const DESCRIBE_CONFIGS = 32;
/** The API keys played, each with its only version. */
const PLAYED = [
  [LIST_OFFSETS, 1],
  [METADATA, 1],
  [API_VERSIONS, 0],
  [DESCRIBE_CONFIGS, 0],
] as const;
const UNSUPPORTED_VERSION = 35;

/** Brokers played by the test: their topics exist and are empty. */
export class PlayedCluster implements AsyncDisposable {
  readonly nodes: readonly PlayedNode[];
  readonly topics: readonly string[];
  /** Number of partitions of each topic. */
  partitionCount: number;

  /** Starts brokers; each topic has one partition per broker until `partitionCount` is changed. */
  static async start(count: number, topics: readonly string[]): Promise<PlayedCluster> {
    const cluster = new PlayedCluster(count, topics);
    await Promise.all(cluster.nodes.map((node) => node.listen()));
    return cluster;
  }

  private constructor(count: number, topics: readonly string[]) {
    this.topics = topics;
    this.partitionCount = count;
    this.nodes = Array.from({ length: count }, (_, index) => new PlayedNode(index + 1, this));
  }

  get addresses(): readonly string[] {
    return this.nodes.map(({ port }) => `127.0.0.1:${port}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.nodes.map((node) => node[Symbol.asyncDispose]()));
  }
}

/** A broker of the cluster. */
export class PlayedNode implements AsyncDisposable {
  readonly id: number;
  readonly #cluster: PlayedCluster;
  readonly #server: Server = createServer((socket) => this.#serve(socket));
  readonly #sockets = new Set<Socket>();
  /**
   * `frozen` takes requests and answers none; `closing` ends each connection on which a request comes; `failing` is well until it
   * has given the metadata once more, and then closing.
   */
  state: "well" | "failing" | "frozen" | "closing" = "well";
  /** Whether the cluster's metadata no longer lists this broker. */
  isFenced = false;
  connections = 0;
  /** Number of requests that were not answered. */
  unanswered = 0;

  constructor(id: number, cluster: PlayedCluster) {
    this.id = id;
    this.#cluster = cluster;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async listen(): Promise<void> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, "close");
  }

  #serve(socket: Socket): void {
    this.connections += 1;
    this.#sockets.add(socket);
    socket.on("error", () => {}).on("close", () => this.#sockets.delete(socket));
    let read = Buffer.alloc(0);
    socket.on("data", (data) => {
      read = Buffer.concat([read, data]);
      while (read.length >= SIZE_BYTES && read.length >= SIZE_BYTES + read.readInt32BE(0)) {
        const end = SIZE_BYTES + read.readInt32BE(0);
        this.#handle(socket, new Decoding(read.subarray(SIZE_BYTES, end)));
        read = read.subarray(end);
      }
    });
  }

  #handle(socket: Socket, request: Decoder): void {
    if (this.state === "closing") socket.end();
    if (this.state === "frozen" || this.state === "closing") {
      this.unanswered += 1;
      return;
    }
    const [api, version, correlationId] = [
      request.readInt16(),
      request.readInt16(),
      request.readInt32(),
    ];
    // Client id.
    request.readString();
    const { buffer } = this.#answer(api, version, request);
    const head = new Encoding().writeInt32(SIZE_BYTES + buffer.length).writeInt32(correlationId);
    socket.write(Buffer.concat([head.buffer, buffer]));
  }

  #answer(api: number, version: number, request: Decoder): Encoder {
    if (!PLAYED.some(([known, only]) => known === api && only === version))
      return new Encoding().writeInt16(UNSUPPORTED_VERSION).writeArray([]);
    switch (api) {
      case API_VERSIONS:
        return new Encoding()
          .writeInt16(0)
          .writeArray(
            PLAYED.map(([known, only]) =>
              new Encoding().writeInt16(known).writeInt16(only).writeInt16(only),
            ),
          );
      case METADATA:
        if (this.state === "failing") this.state = "closing";
        return metadata(this.#cluster);
      case LIST_OFFSETS:
        return offsets(request);
      default:
        // Describes no settings of any topic.
        return new Encoding().writeInt32(0).writeArray([]);
    }
  }
}

function metadata({ nodes, topics, partitionCount }: PlayedCluster): Encoder {
  const listed = nodes.filter(({ isFenced }) => !isFenced);
  const ids = listed.map(({ id }) => id);
  const partitions = Array.from({ length: partitionCount }, (_, partition) =>
    new Encoding()
      .writeInt16(0)
      .writeInt32(partition)
      .writeInt32(ids[partition % ids.length]!)
      .writeArray(ids)
      .writeArray(ids),
  );
  return new Encoding()
    .writeArray(
      listed.map(({ id, port }) =>
        new Encoding().writeInt32(id).writeString("127.0.0.1").writeInt32(port).writeString(null),
      ),
    )
    .writeInt32(ids[0]!)
    .writeArray(
      topics.map((topic) =>
        new Encoding().writeInt16(0).writeString(topic).writeBoolean(false).writeArray(partitions),
      ),
    );
}

function offsets(request: Decoder): Encoder {
  // Id of the requesting replica.
  request.readInt32();
  const topics = request.readArray((topic) => ({
    name: topic.readString(),
    partitions: topic.readArray((asked) => {
      const partition = asked.readInt32();
      asked.readInt64();
      return partition;
    }),
  }));
  return new Encoding().writeArray(
    topics.map(({ name, partitions }) =>
      new Encoding()
        .writeString(name)
        .writeArray(
          partitions.map((partition) =>
            new Encoding().writeInt32(partition).writeInt16(0).writeInt64(-1).writeInt64(0),
          ),
        ),
    ),
  );
}
