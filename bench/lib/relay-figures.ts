import { readFileSync } from "node:fs";
import type { RelayProcess } from "../../test/support/relay-process.ts";

/** Returns how many tries of this status a relay with the delivery role has made so far. */
export async function countAttempts(
  { ports }: Pick<RelayProcess, "ports">,
  status: string,
): Promise<number> {
  const answer = await fetch(`http://127.0.0.1:${ports.ops}/metrics`);
  const line = new RegExp(`^relay_delivery_attempts_total\\{status="${status}"\\} (\\d+)`, "m");
  return Number(line.exec(await answer.text())?.[1] ?? 0);
}

/** Returns the user and system time that the relay, without its embedded ClickHouse, has used so far; a tick is 10 ms. */
export function cpuMsOf(
  relay: Pick<RelayProcess, "pid">,
  part: "process" | "mainThread" = "process",
): number {
  const pid = relay.pid();
  const file = part === "process" ? `/proc/${pid}/stat` : `/proc/${pid}/task/${pid}/stat`;
  const fields = readFileSync(file, "utf8").split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) * 10;
}
