import kafkajs from "kafkajs";

/** The client is CommonJS, and Node cannot see all of its names as named exports. */
export const { AssignerProtocol, ConfigResourceTypes, Kafka, KafkaJSConnectionError, logLevel } =
  kafkajs;
