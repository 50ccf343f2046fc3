import { connect as connectTcp, isIP } from "node:net";
import { connect as connectTls } from "node:tls";
import type { Kafka as KafkaClient, KafkaConfig, logCreator, SASLOptions } from "kafkajs";
import type { Logger } from "../../domain/logger.ts";
import type { KafkaConnection } from "./kafka-options.ts";
import { THROTTLED } from "./guards/request-queue-guard.ts";
import { OpenSockets } from "./open-sockets.ts";
import { Kafka, logLevel } from "./kafkajs.ts";
import { WireWatch } from "./wire-watch.ts";

const KEEP_ALIVE_DELAY_MS = 60_000;
const TELL_THROTTLED_EVERY_MS = 60_000;
const RAISE_QUOTA =
  "a quota of the brokers holds this process back: raise it (kafka-configs, entity types users and clients)";

/** How long the client waits, and how often it tries again; its own defaults where nothing is given. */
export type ClientLimits = Pick<KafkaConfig, "requestTimeout" | "connectionTimeout" | "retry">;

/** Makes a client that writes to our logger, and whose sockets are watched. */
export function makeKafkaClient(
  connection: KafkaConnection,
  logger: Logger,
  limits: ClientLimits,
  sockets = new OpenSockets(),
  wire = new WireWatch(),
): KafkaClient {
  const { tls, sasl } = connection;
  return new Kafka({
    ...limits,
    clientId: connection.clientId,
    brokers: [...connection.brokers],
    ...(tls === undefined || tls === false ? {} : { ssl: tls === true ? true : { ca: tls.ca } }),
    ...(sasl === undefined ? {} : { sasl: sasl as SASLOptions }),
    enforceRequestTimeout: true,
    logLevel: logLevel.INFO,
    logCreator: logTo(logger),
    socketFactory: ({ host, port, ssl, onConnect }) => {
      let isOpen = false;
      const opened = () => {
        isOpen = true;
        wire.connected();
        onConnect();
      };
      // `ssl: true` spreads to nothing, so that the system's certificate authorities count.
      const socket =
        ssl === undefined || ssl === null
          ? connectTcp({ host, port, noDelay: true }, opened)
          : connectTls(
              { host, port, ...(isIP(host) === 0 ? { servername: host } : {}), ...ssl },
              opened,
            );
      // Each write while it connects, and each end once it was closed, adds a listener: no leak to warn of.
      socket.setMaxListeners(0);
      socket.setKeepAlive(true, KEEP_ALIVE_DELAY_MS);
      sockets.add(socket);
      socket.once("close", () => {
        if (isOpen) wire.closed();
      });
      return socket;
    },
  });
}

/**
 * Logs at debug level: kafkajs calls every retry an error and every pause news; what matters reaches `onError` and the callers, but for
 * the quotas that hold it back.
 */
function logTo(logger: Logger): logCreator {
  let toldAtMs = Number.NEGATIVE_INFINITY;
  return () =>
    ({ namespace, log: { message, error, broker, throttleMs } }) => {
      if (message === THROTTLED) {
        if (performance.now() - toldAtMs < TELL_THROTTLED_EVERY_MS) return;
        toldAtMs = performance.now();
        logger.warn({ broker, throttleMs, mend: RAISE_QUOTA }, "log.throttled");
        return;
      }
      const err = error === undefined ? {} : { err: String(error) };
      logger.debug({ client: namespace, said: message, ...err }, "log.kafka_client");
    };
}
