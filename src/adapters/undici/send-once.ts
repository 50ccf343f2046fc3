import { request } from "undici";
import type { HeaderList } from "../../domain/event.ts";
import { headerBytes } from "./header-bytes.ts";

export interface OneRequest {
  readonly url: string;
  readonly method: string;
  readonly headers: HeaderList;
  readonly body: Uint8Array | null;
}

export interface OneAnswer {
  readonly status: number;
  /** Names in lower case; a list where the answer has a name more than once. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Must be read or left, or else the connection stays open. */
  readonly body: AsyncIterable<Uint8Array>;
}

/**
 * Sends a request past the receiver guard, to an address of our own. Redirects are not followed, and bodies not inflated.
 * Not `fetch`, which refuses ports such as 6000 and 10080 on which a server of ours may well listen.
 * @throws what the client or the signal throws; the message may quote headers
 */
export async function sendOnce(
  { url, method, headers, body }: OneRequest,
  signal: AbortSignal,
): Promise<OneAnswer> {
  const answer = await request(url, {
    method,
    headers: headers.flatMap(([name, value]) => [name, headerBytes(value)]),
    body,
    signal,
  });
  return { status: answer.statusCode, headers: answer.headers, body: answer.body };
}
