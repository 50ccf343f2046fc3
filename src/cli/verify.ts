import { isUtf8 } from "node:buffer";
import { fstatSync } from "node:fs";
import { openJwks, openSender } from "../app/outbound.ts";
import { makeSystemClock } from "../app/system-clock.ts";
import { loadConfig } from "../config/load-config.ts";
import { UsageError } from "../domain/errors.ts";
import { makeVerifyPorts, type VerifyPorts } from "../pipeline/verify/verify-request.ts";
import { printLine, type CommandIo } from "./io.ts";
import { readLines } from "./read-lines.ts";
import type { LineDefaults } from "./read-request-line.ts";
import { refuseLine, verifyLine } from "./verify-line.ts";

/** A request with the largest body that can be configured, in base64, has half of this. */
const MAX_LINE_BYTES = 256 * 1024 * 1024;

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
  const leave = (): void => void io.stdin.destroy();
  io.signal.addEventListener("abort", leave, { once: true });
  if (io.signal.aborted) leave();
  try {
    for await (const line of readLines(io.stdin, MAX_LINE_BYTES)) {
      if (io.signal.aborted) return;
      const answer = await answerTo(line, ports, defaults);
      if (answer !== null) printLine(io.stdout, answer);
    }
  } catch (error) {
    if (!io.signal.aborted) throw error;
  } finally {
    io.signal.removeEventListener("abort", leave);
  }
}

/** Returns null for an empty line. */
async function answerTo(
  line: Buffer | null,
  ports: VerifyPorts,
  defaults: LineDefaults,
): Promise<string | null> {
  if (line === null) return refuseLine(`the line is longer than ${MAX_LINE_BYTES} bytes`);
  // Read all the same, a secret or a header would be another one, and the verdict not that of the ingest.
  if (!isUtf8(line)) return refuseLine("the line is not UTF-8");
  const text = line.toString();
  return text.trim() === "" ? null : verifyLine(text, ports, defaults);
}
