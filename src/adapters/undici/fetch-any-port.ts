import { buffer } from "node:stream/consumers";
import { sendOnce } from "./send-once.ts";

/** Statuses with which a `Response` can have no body, not even an empty one. */
const WITHOUT_BODY: ReadonlySet<number> = new Set([204, 205, 304]);

/** A `fetch` to addresses of our own, at whatever port (`send-once.ts`). Redirects are not followed, and bodies not inflated. */
export const fetchAnyPort: typeof fetch = async (input, init) => {
  const request = new Request(input, init);
  const { url, method, signal } = request;
  const body = request.body === null ? null : new Uint8Array(await request.arrayBuffer());
  const answer = await sendOnce({ url, method, headers: [...request.headers], body }, signal);
  const headers = new Headers();
  for (const [name, values = []] of Object.entries(answer.headers))
    for (const value of [values].flat()) headers.append(name, value);
  const bytes = new Uint8Array(await buffer(answer.body));
  const { status } = answer;
  return new Response(WITHOUT_BODY.has(status) ? null : bytes, { status, headers });
};
