import type { ClickHouseClient } from "@clickhouse/client";
import { UsageError } from "../../domain/errors.ts";
import { withinOrCalledOff } from "../../domain/follow-signal.ts";
import { askByDriver } from "./ask.ts";

/** Year and month of the release that brought `use_skip_indexes_if_final_exact_mode`, with which each question is asked. */
const MIN_VERSION = [25, 5] as const;
const SELECT_VERSION = "SELECT version() AS version";
const VERSION = /^(\d+)\.(\d+)/;
/**
 * A server that works answers this question soon, however long its migrations take: these must not be spent waiting for one that
 * hangs, since nothing is delivered before they have been tried.
 */
const ANSWER_MS = 5_000;

/**
 * @throws {UsageError} when the server is too old; one that does not tell a version is let be
 * @throws {Error} when it accepts the connection and answers nothing
 */
export async function refuseOlderServer(
  client: ClickHouseClient,
  answerMs: number = ANSWER_MS,
): Promise<void> {
  const [row] = await withinOrCalledOff(
    undefined,
    answerMs,
    (ended) => askByDriver(client)<{ version: string }>(SELECT_VERSION, {}, {}, ended),
    () => {
      throw new Error(`no answer within ${answerMs / 1_000} s`);
    },
  );
  const found = VERSION.exec(row?.version ?? "");
  if (found === null) return;
  const [year, month] = [Number(found[1]), Number(found[2])];
  const [minYear, minMonth] = MIN_VERSION;
  if (year > minYear || (year === minYear && month >= minMonth)) return;
  throw new UsageError(
    `the ClickHouse of CLICKHOUSE_URL is version ${row?.version}: ${MIN_VERSION.join(".")} or newer is needed`,
  );
}
