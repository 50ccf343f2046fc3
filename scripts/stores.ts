// `npm run stores`: starts a real Kafka and PostgreSQL for development, and stops them on Ctrl-C.
import { startLocalKafka } from "../test/support/stores/kafka-local.ts";
import { startPostgres } from "../test/support/stores/postgres.ts";

const brokerCount = process.argv.includes("--three") ? 3 : 1;
const started = await Promise.allSettled([startLocalKafka(brokerCount), startPostgres()]);
const [kafka, postgres] = started;
if (kafka.status === "fulfilled") console.log(`KAFKA_BROKERS=${kafka.value.brokers.join(",")}`);
else console.error(`no Kafka: ${String(kafka.reason)}`);
if (postgres.status === "fulfilled") console.log(`DATABASE_URL=${postgres.value.url}`);
else console.error(`no PostgreSQL: ${String(postgres.reason)}`);

const stores = started.flatMap((store) => (store.status === "fulfilled" ? [store.value] : []));
if (stores.length < started.length) process.exitCode = 1;
if (stores.length > 0) {
  console.error("Ready. Ctrl-C ends them.");
  await new Promise<void>((resolve) => {
    const keepAlive = setInterval(() => {}, 60_000);
    const stop = () => {
      clearInterval(keepAlive);
      resolve();
    };
    process.once("SIGINT", stop);
    process.once("SIGTERM", stop);
  });
  await Promise.all(stores.map((store) => store[Symbol.asyncDispose]()));
}
