import { createRequire } from "node:module";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { once } from "node:events";

const load = createRequire(import.meta.url);
const logger = {
  namespace: () => logger,
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

interface Connectable {
  connect(): Promise<boolean>;
  disconnect(): Promise<boolean>;
}

/** A broker played by the test, and a kafkajs connection to it. */
export interface PlayedBroker<Connection> extends AsyncDisposable {
  readonly port: number;
  readonly connection: Connection;
  /** Connects. @returns the broker's end of the connection */
  connected(): Promise<Socket>;
}

/** Starts a broker. @param settings further options for kafkajs's own `Connection`, besides the address */
export async function playBroker<Connection extends Connectable>(
  settings: object,
): Promise<PlayedBroker<Connection>> {
  const broker = createServer();
  broker.listen(0, "127.0.0.1");
  await once(broker, "listening");
  const { port } = broker.address() as AddressInfo;
  const Made = load("kafkajs/src/network/connection.js");
  const connection = new Made({
    host: "127.0.0.1",
    port,
    logger,
    clientId: "t",
    connectionTimeout: 1_000,
    socketFactory: ({ onConnect }: { onConnect: () => void }) =>
      connect(port, "127.0.0.1", onConnect),
    ...settings,
  }) as Connection;
  return {
    port,
    connection,
    async connected() {
      const accepted = once(broker, "connection");
      await connection.connect();
      const [socket] = (await accepted) as [Socket];
      return socket;
    },
    async [Symbol.asyncDispose]() {
      await connection.disconnect();
      broker.close();
    },
  };
}
