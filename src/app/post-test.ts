import type { TestAnswer, TestRequest } from "../management/ports.ts";

/** Longer than ingest takes at most. */
const TIMEOUT_MS = 10_000;

/** Posts a test webhook to the ingest like any provider; not through the receiver guard, since the address is ours. */
export async function postTest(request: TestRequest): Promise<TestAnswer> {
  try {
    const response = await fetch(request.url, {
      method: request.method,
      headers: request.headers.map(([name, value]): [string, string] => [name, value]),
      body: new Uint8Array(request.body),
      redirect: "manual",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    return {
      kind: "answered",
      status: response.status,
      eventId: response.headers.get("x-relay-event-id"),
      body: await response.text(),
    };
  } catch (error) {
    return { kind: "unreachable", reason: reasonOf(error) };
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error && error.cause.message !== ""
    ? error.cause.message
    : error.message;
}
