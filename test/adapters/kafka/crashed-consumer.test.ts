import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { kafkaJars } from "../../support/stores/kafka-jars.ts";
import { startLocalKafka } from "../../support/stores/kafka-local.ts";
import { skipOrFail } from "../../support/stores/skip-or-fail.ts";
import { waitFor } from "../../support/wait-for.ts";

const CHILD = fileURLToPath(new URL("../../support/kafka-crash-child.ts", import.meta.url));
const jars: string | Error = await kafkaJars().catch((error: Error) => error);

describe.skipIf(jars instanceof Error && skipOrFail("Kafka", jars))(
  "consumers that crash while they are closed",
  () => {
    it("leave nothing that holds the process: it ends by itself", async () => {
      // The test kills the broker, so each of its runs needs its own.
      await using kafka = await startLocalKafka(1);
      const child = spawn(process.execPath, ["--import", "tsx", CHILD, ...kafka.brokers], {
        env: { PATH: process.env["PATH"] ?? "" },
        stdio: ["ignore", "pipe", "inherit"],
      });
      let output = "";
      let code: number | null = null;
      child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
      child.once("exit", (exitCode) => {
        code = exitCode;
      });
      try {
        await waitFor("all groups", () => output.includes("joined"), 60_000);
        await kafka.kill(1);
        await waitFor("the end of the log", () => output.includes("closed"), 90_000);
        await waitFor("the end of the process", () => code !== null, 30_000);
        expect(code).toBe(0);
      } finally {
        child.kill("SIGKILL");
      }
    }, 280_000);
  },
);
