import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { ReceivedRequest } from "./ledgers.ts";

export interface LedgerReceiverProcess extends AsyncDisposable {
  readonly url: string;
  readonly received: readonly ReceivedRequest[];
  pid(): number;
  /** `cutting`: connections are reset before a request is read. */
  setMode(mode: "well" | "cutting"): void;
}

interface Report {
  readonly port?: number;
  readonly began?: readonly ReceivedRequest[];
  readonly ended?: readonly {
    readonly index: number;
    readonly endedMs: number;
    readonly status: number | null;
  }[];
}

/** Starts the receiver in its own process and keeps its ledger here. */
export async function startLedgerReceiverProcess(): Promise<LedgerReceiverProcess> {
  const child = fork(fileURLToPath(new URL("ledger-receiver-child.ts", import.meta.url)), [], {
    execArgv: ["--import", "tsx"],
    env: { PATH: process.env["PATH"] ?? "" },
  });
  const received: ReceivedRequest[] = [];
  const port = await new Promise<number>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`the receiver ended (${code})`)));
    child.on("message", (report: Report) => {
      if (report.port !== undefined) resolve(report.port);
      for (const request of report.began ?? []) received.push(request);
      for (const { index, endedMs, status } of report.ended ?? []) {
        const request = received[index];
        if (request !== undefined) Object.assign(request, { endedMs, status });
      }
    });
  });
  return {
    url: `http://127.0.0.1:${port}`,
    received,
    pid: () => child.pid ?? -1,
    setMode: (mode) => void child.send({ mode }),
    [Symbol.asyncDispose]: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exit = once(child, "exit");
      child.kill("SIGKILL");
      await exit;
    },
  };
}
