import { fstatSync } from "node:fs";
import { createInterface } from "node:readline";
import { openJwks, openSender } from "../app/outbound.ts";
import { makeSystemClock } from "../app/system-clock.ts";
import { loadConfig } from "../config/load-config.ts";
import { UsageError } from "../domain/errors.ts";
import { makeVerifyPorts } from "../pipeline/verify/verify-request.ts";
import { printLine, type CommandIo } from "./io.ts";
import { verifyLine } from "./verify-line.ts";

/**
 * `relay verify`: one JSON request per line in, one JSON verdict per line out, in the same order. Ends with its input, or on a signal.
 * @throws {UsageError} for a wrong variable, and when its input is a directory
 */
export async function verify(io: CommandIo): Promise<void> {
  const config = loadConfig(io.env);
  // Node would show it as an empty file.
  if (io.stdin.fd !== undefined && fstatSync(io.stdin.fd).isDirectory())
    throw new UsageError("stdin is a directory: give a file with one JSON request per line");
  const clock = makeSystemClock();
  const defaults = { nowMs: () => clock.now(), trustedProxies: config.trustedProxies };
  await using sender = openSender(config);
  const ports = makeVerifyPorts(openJwks(sender, clock));
  if (io.stdin.isTTY === true)
    printLine(io.stderr, "One JSON request per line (see --help); ends with Ctrl-D.");
  for await (const line of createInterface({
    input: io.stdin,
    crlfDelay: Number.POSITIVE_INFINITY,
    signal: io.signal,
  })) {
    if (io.signal.aborted) return;
    if (line.trim() === "") continue;
    printLine(io.stdout, await verifyLine(line, ports, defaults));
  }
}
