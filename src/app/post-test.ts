import { sendOnce } from "../adapters/undici/send-once.ts";
import { RELAY_VERSION } from "../config/version.ts";
import type { HeaderList } from "../domain/event.ts";
import { failureCodeOf } from "../domain/thrown.ts";
import { userAgentOf } from "../domain/user-agent.ts";
import type { TestAnswer, TestRequest } from "../management/ports.ts";

/** Longer than ingest ever takes. */
const TIMEOUT_MS = 10_000;
/** The ingest's answers are far shorter; anything could stand at the URL instead. */
const MAX_BODY_BYTES = 64 * 1024;
const FAILED = "the request failed";

/** Posts a test webhook to the ingest like any provider; not through the receiver guard, since the address is ours. */
export async function postTest(request: TestRequest): Promise<TestAnswer> {
  try {
    const { status, headers, body } = await sendOnce(
      { ...request, headers: withUserAgent(request.headers) },
      AbortSignal.timeout(TIMEOUT_MS),
    );
    const eventId = headers["x-relay-event-id"];
    return {
      kind: "answered",
      status,
      eventId: typeof eventId === "string" ? eventId : null,
      body: await readStart(body),
    };
  } catch (error) {
    return { kind: "unreachable", reason: reasonOf(error) };
  }
}

/** Names the sender, without which some proxies refuse a request, unless the signature itself is in that header. */
function withUserAgent(headers: HeaderList): HeaderList {
  const hasOne = headers.some(([name]) => name.toLowerCase() === "user-agent");
  return hasOne ? headers : [["user-agent", userAgentOf(RELAY_VERSION)], ...headers];
}

/** Returns the beginning of the body, decoded, and calls off the rest. */
async function readStart(body: AsyncIterable<Uint8Array>): Promise<string> {
  const pieces: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const piece of body) {
    pieces.push(piece);
    sizeBytes += piece.length;
    if (sizeBytes >= MAX_BODY_BYTES) break;
  }
  return Buffer.concat(pieces).toString("utf8", 0, MAX_BODY_BYTES);
}

/** Describes an error in fixed words and by its code: messages of the HTTP client quote headers, which hold the secret. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return FAILED;
  if (error.name === "TimeoutError") return `no answer within ${TIMEOUT_MS / 1000} s`;
  const code = failureCodeOf(error);
  return code === null ? FAILED : `${FAILED} (${code})`;
}
