import { test } from "vitest";
import { startConfigFeed } from "../../../src/adapters/postgres/config-feed.ts";
import { realClock } from "../../support/clickhouse.ts";
import { toError } from "../../../src/domain/thrown.ts";
import { startPlayedPostgres } from "../../support/played-postgres.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";
import { waitFor } from "../../support/wait-for.ts";

test("regression: every process took half a minute to stop, and failed, while PostgreSQL was frozen: its feed of changes waited for it to hang up", async () => {
  await using server = await startPlayedPostgres();
  let listens = false;
  const feed = startConfigFeed({
    connection: server.connection,
    clock: realClock,
    logger: makeSilentLogger(),
    explain: toError,
    onChange: () => undefined,
    onGap: () => void (listens = true),
  });
  await waitFor("the feed", () => listens);
  await feed[Symbol.asyncDispose]();
});
