import { makeApi } from "../../src/api/api.ts";
import { makeClient, type Client } from "../../src/client/client.ts";
import type { ClientOptions } from "../../src/client/send-request.ts";
import { ResponseCheck, type Exchange, type OpenApiJson } from "./api-response-check.ts";
import { makeSilentLogger } from "./silent-logger.ts";

/** Makes the document that the service serves from the source, so that no service need be up. */
async function readDocument(): Promise<OpenApiJson> {
  const api = makeApi({
    management: {} as never,
    queries: {} as never,
    logger: makeSilentLogger(),
    newRequestId: () => "none",
    now: Date.now,
    monotonicMs: () => 0,
    version: "test",
  });
  return (await (await api.request("/openapi.json")).json()) as OpenApiJson;
}

const responses = new ResponseCheck(await readDocument());

/** @throws {Error} when the OpenAPI document does not allow this answer: status, headers, every field */
export function checkAnswer(exchange: Exchange): void {
  responses.check(exchange);
}

/** Makes the client that all tests use: every answer is checked against the OpenAPI document. */
export function makeCheckedClient(options: ClientOptions): Client {
  return makeClient({ ...options, onResponse: checkAnswer });
}

/** Does what `fetch` does, with the same check, for management API requests that the client does not make. */
export async function checkedFetch(url: string, init: RequestInit = {}): Promise<Response> {
  const response = await fetch(url, init);
  const { pathname, search } = new URL(url);
  checkAnswer({
    method: init.method ?? "GET",
    target: pathname + search,
    status: response.status,
    headers: response.headers,
    text: await response.clone().text(),
  });
  return response;
}
