import { verifyRequest } from "../pipeline/verify/verify-request.ts";
import type { VerifyPorts } from "../pipeline/verify/verify-request.ts";
import {
  parseLine,
  readRequest,
  RequestLineError,
  type LineDefaults,
} from "./read-request-line.ts";

interface Answer {
  readonly id: unknown;
  readonly valid: boolean;
  readonly reason: string;
  readonly message: string | null;
}

/**
 * Answers one line of `relay verify`: a JSON request in, a JSON verdict out. Never rejects: a line that cannot be read
 * is answered with the reason `malformed_request`.
 */
export async function verifyLine(
  line: string,
  ports: VerifyPorts,
  defaults: LineDefaults,
): Promise<string> {
  return JSON.stringify(await answerLine(line, ports, defaults));
}

/** Answers a line that cannot even be read as text. */
export function refuseLine(message: string): string {
  return JSON.stringify(malformed(null, message));
}

function malformed(id: unknown, message: string): Answer {
  return { id, valid: false, reason: "malformed_request", message };
}

async function answerLine(
  line: string,
  ports: VerifyPorts,
  defaults: LineDefaults,
): Promise<Answer> {
  let id: unknown = null;
  try {
    const fields = parseLine(line);
    id = fields["id"] ?? null;
    const result = await verifyRequest(readRequest(fields, defaults), ports);
    return { id, valid: result.valid, reason: result.reason, message: result.message };
  } catch (error) {
    const message = error instanceof RequestLineError ? error.message : "the line cannot be read";
    return malformed(id, message);
  }
}
