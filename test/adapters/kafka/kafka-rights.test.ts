import kafkajs, { type Admin } from "kafkajs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Kafka, logLevel } from "../../../src/adapters/kafka/kafkajs.ts";
import { collect } from "../../support/log-consumer.ts";
import { freshPrefix, openTestKafkaLog } from "../../support/stores/kafka-harness.ts";
import { startLocalKafka, type LocalKafka } from "../../support/stores/kafka-local.ts";
import { skipOrFail } from "../../support/stores/skip-or-fail.ts";
import { until } from "../../support/wait-for.ts";

const { AclOperationTypes, AclPermissionTypes, AclResourceTypes, ResourcePatternTypes } = kafkajs;
type Right = "CREATE" | "DESCRIBE_CONFIGS" | "READ" | "WRITE" | "ALTER";

const LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required";
const started: LocalKafka | Error = await startLocalKafka(1, {
  "listener.security.protocol.map":
    "PLAINTEXT:SASL_PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
  "sasl.enabled.mechanisms": "PLAIN",
  "listener.name.plaintext.plain.sasl.jaas.config": `${LOGIN} user_owner="o" user_relay="r";`,
  "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
  "super.users": "User:owner;User:ANONYMOUS",
  "socket.request.max.bytes": "209715200",
}).catch((error: Error) => error);

describe.skipIf(started instanceof Error && skipOrFail("a local Kafka broker", started))(
  "rights at the brokers",
  { timeout: 60_000 },
  () => {
    const kafka = started as LocalKafka;
    let owner: Admin;
    beforeAll(async () => {
      const sasl = { mechanism: "plain", username: "owner", password: "o" } as const;
      owner = new Kafka({ brokers: [...kafka.brokers], logLevel: logLevel.NOTHING, sasl }).admin();
      await owner.connect();
    });
    afterAll(async () => {
      await owner.disconnect();
      await kafka[Symbol.asyncDispose]();
    });

    const grant = (of: "TOPIC" | "GROUP", prefix: string, rights: readonly Right[]) =>
      owner.createAcls({
        acl: rights.map((right) => ({
          resourceType: AclResourceTypes[of],
          resourceName: prefix,
          resourcePatternType: ResourcePatternTypes.PREFIXED,
          principal: "User:relay",
          host: "*",
          operation: AclOperationTypes[right],
          permissionType: AclPermissionTypes.ALLOW,
        })),
      });
    const openAs = (
      username: "owner" | "relay",
      topicPrefix: string,
      partitions = 1,
      options: { readonly maxRecordBytes?: number } = {},
    ) =>
      openTestKafkaLog(kafka.brokers, {
        ...options,
        topicPrefix,
        partitions,
        connection: {
          brokers: kafka.brokers,
          clientId: "t",
          sasl: { mechanism: "plain", username, password: username.charAt(0) },
        },
      });
    /** Returns the prefix of topics that their owner has made, with one event. */
    const madeByOwner = async (): Promise<string> => {
      const prefix = freshPrefix();
      await using log = await openAs("owner", prefix);
      await log.append([{ topic: "events", key: "k", value: Buffer.from("x") }]);
      return prefix;
    };

    test("topics that exist take records from who may only write them and see their settings", async () => {
      const prefix = await madeByOwner();
      await grant("TOPIC", prefix, ["DESCRIBE_CONFIGS", "WRITE"]);
      await using log = await openAs("relay", prefix);
      const [position] = await log.append([{ topic: "events", key: "k", value: Buffer.from("y") }]);
      expect(position?.offset).toBe(1);
    });

    test("of the largest size, too, without a right on the cluster to ask what its brokers take", async () => {
      const [prefix, largest] = [freshPrefix(), { maxRecordBytes: 101 * 1024 * 1024 }];
      await (await openAs("owner", prefix, 1, largest))[Symbol.asyncDispose]();
      await grant("TOPIC", prefix, ["DESCRIBE_CONFIGS", "WRITE"]);
      await using log = await openAs("relay", prefix, 1, largest);
      expect(log.partitions).toBe(1);
    });

    test("regression: where topics cannot be made, the missing right is named", async () => {
      const prefix = freshPrefix();
      await grant("TOPIC", prefix, ["DESCRIBE_CONFIGS", "READ", "WRITE"]);
      await expect(openAs("relay", prefix)).rejects.toThrow(
        `this user needs the right Create for topics that begin with ${prefix}`,
      );
      await grant("TOPIC", prefix, ["CREATE"]);
      await using log = await openAs("relay", prefix);
      expect(log.partitions).toBe(1);
    });

    test("regression: where topics cannot be grown, the missing right is named", async () => {
      const prefix = await madeByOwner();
      await grant("TOPIC", prefix, ["CREATE", "DESCRIBE_CONFIGS", "READ", "WRITE"]);
      await expect(openAs("relay", prefix, 2)).rejects.toThrow(
        `the topics cannot be grown to 2 partitions (RELAY_PARTITIONS): this user needs the right Alter for topics that begin with ${prefix}`,
      );
      await grant("TOPIC", prefix, ["ALTER"]);
      await using log = await openAs("relay", prefix, 2);
      expect(log.partitions).toBe(2);
    });

    test("regression: a consumer whose user may not read the group names the right, and reads once it has it", async () => {
      const prefix = await madeByOwner();
      await grant("TOPIC", prefix, ["DESCRIBE_CONFIGS", "READ", "WRITE"]);
      await using log = await openAs("relay", prefix);
      await using reader = await collect(log, {
        group: "g",
        topics: ["events"],
        deadlineMs: 30_000,
      });
      const right = `this user needs the right Read for groups that begin with ${prefix}`;
      await until(() => reader.errors.some(({ message }) => message.includes(right)));
      await grant("GROUP", prefix, ["READ"]);
      await reader.received(1);
    });

    test("regression: a consumer whose user may not read the topics names the right, and is restored only once it reads", async () => {
      const prefix = await madeByOwner();
      await grant("TOPIC", prefix, ["DESCRIBE_CONFIGS", "WRITE"]);
      await grant("GROUP", prefix, ["READ"]);
      await using log = await openAs("relay", prefix);
      let restored = 0;
      await using reader = await collect(log, {
        group: "g",
        topics: ["events"],
        deadlineMs: 30_000,
        onRestored: () => (restored += 1),
      });
      const right = `this user needs the right Read for topics that begin with ${prefix}`;
      const isRefusal = ({ message }: Error) => message === right;
      await until(() => reader.errors.filter(isRefusal).length >= 3);
      expect(restored).toBe(0);
      await grant("TOPIC", prefix, ["READ"]);
      await reader.received(1);
      expect(restored).toBe(1);
    });
  },
);
