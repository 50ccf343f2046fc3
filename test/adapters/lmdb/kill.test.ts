import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import type { LogRecord } from "../../../src/domain/log.ts";
import { collect } from "../../support/log-consumer.ts";
import { openTestLog, temporaryDir } from "../../support/log-lmdb.ts";
import { until } from "../../support/wait-for.ts";

const childPath = fileURLToPath(new URL("../../support/log-append-child.ts", import.meta.url));

it("has everything that was acknowledged, whole and where it was said to be, after several kill -9", async () => {
  await using dir = await temporaryDir();
  const acknowledged = new Map<string, string>();
  for (let run = 0; run < 4; run++) {
    const child = spawn(process.execPath, ["--import", "tsx", childPath, dir.path, `run${run}`], {
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, NODE_OPTIONS: "" },
    });
    let output = "";
    child.stdout.on("data", (chunk) => {
      output += String(chunk);
    });
    const wanted = 300 + run * 200;
    await until(() => output.split("\n").length > wanted, "appends", 30_000);
    child.kill("SIGKILL");
    await once(child, "close");
    for (const line of output.split("\n").slice(0, -1)) {
      const [id, ...positions] = line.split(" ");
      acknowledged.set(id!, positions.join(" "));
    }
  }
  expect(acknowledged.size).toBeGreaterThan(2_000);

  await using log = await openTestLog(dir.path);
  const found = new Map<string, LogRecord[]>();
  await using consumer = await collect(log, {
    group: "g",
    topics: ["events", "tasks"],
    deadlineMs: 20_000,
    onRecords: (_partition, _topic, records) => {
      for (const r of records) {
        const id = Buffer.from(r.value).toString().replace(/\.+$/, "");
        found.set(id, [...(found.get(id) ?? []), r]);
      }
    },
  });
  await consumer.received(acknowledged.size * 2);
  await until(() => [...acknowledged.keys()].every((id) => found.get(id)?.length === 2), "all");
  for (const [id, positions] of acknowledged) {
    const [event, task] = found.get(id)!.toSorted((a, b) => a.topic.localeCompare(b.topic));
    expect(`${event!.partition} ${event!.offset} ${task!.partition} ${task!.offset}`).toBe(
      positions,
    );
  }
  // An append that was not acknowledged is there whole or not at all.
  for (const records of found.values()) expect(records).toHaveLength(2);
}, 120_000);
