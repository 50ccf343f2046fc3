// Preloaded into the CLI under test: records every answer that its own client gets from the management API
// (the only one with an x-request-id), for the test to check.
import { appendFileSync } from "node:fs";

const file = process.env.ANSWERS_FILE;
const send = globalThis.fetch;
globalThis.fetch = async (input, init) => {
  const response = await send(input, init);
  if (file !== undefined && response.headers.has("x-request-id")) {
    const { pathname, search } = new URL(input.url ?? input);
    const exchange = {
      method: init?.method ?? "GET",
      target: pathname + search,
      status: response.status,
      headers: [...response.headers],
      text: await response.clone().text(),
    };
    appendFileSync(file, `${JSON.stringify(exchange)}\n`);
  }
  return response;
};
