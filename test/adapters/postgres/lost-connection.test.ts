import { PassThrough } from "node:stream";
import { expect, it } from "vitest";
import { makeLogger } from "../../../src/adapters/pino/logger.ts";
import { openDatabase } from "../../../src/adapters/postgres/database.ts";
import { startPlayedPostgres } from "../../support/played-postgres.ts";
import { until } from "../../support/wait-for.ts";

it("regression: an idle connection that the server ends is told of without a stack, as whatever is away is: the driver's own was shown", async () => {
  await using server = await startPlayedPostgres();
  const lines = new PassThrough({ encoding: "utf8" });
  await using database = openDatabase({
    connection: server.connection,
    maxConnections: 1,
    logger: makeLogger({ level: "warn", pretty: false, destination: lines }),
  });
  await database.run("LISTEN any");
  server.cut();
  await until(() => lines.readableLength > 0, "the lost connection");
  const { err, msg } = JSON.parse(String(lines.read())) as { err: object; msg: string };
  expect(msg).toBe("postgres.connection_lost");
  expect(err).toMatchObject({ message: expect.stringContaining("an idle connection broke: ") });
  expect(err).not.toHaveProperty("stack");
});
