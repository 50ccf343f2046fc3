import { expect, it } from "vitest";
import { openDatabase } from "../../../src/adapters/postgres/database.ts";
import { silentLogger } from "../../support/silent-logger.ts";

it("regression: a port that is none counts as unreachable, and the pool ends: it never did, so commands ended without a word", async () => {
  const connection = { host: "127.0.0.1", port: 99_999 };
  const database = openDatabase({ connection, maxConnections: 1, logger: silentLogger });
  await expect(database.run("SELECT 1")).rejects.toMatchObject({
    code: "unavailable",
    cause: { code: "ERR_SOCKET_BAD_PORT" },
  });
  await database[Symbol.asyncDispose]();
});
