import { createInterface } from "node:readline";
import { openJwks, openSender } from "../app/outbound.ts";
import { makeSystemClock } from "../app/system-clock.ts";
import { loadConfig } from "../config/load-config.ts";
import { makeVerifyPorts } from "../pipeline/verify/verify-request.ts";
import { printLine, type CommandIo } from "./io.ts";
import { verifyLine } from "./verify-line.ts";

/** `relay verify`: one JSON request per line in, one JSON verdict per line out, in the same order. Ends with its input, or on a signal. */
export async function verify(io: CommandIo): Promise<void> {
  const config = loadConfig(io.env);
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
