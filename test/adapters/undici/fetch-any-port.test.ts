import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { expect, it } from "vitest";
import { fetchAnyPort } from "../../../src/adapters/undici/fetch-any-port.ts";

/** Ports that the Fetch standard blocks; any that is free will do. */
const BLOCKED_PORTS = [10_080, 6_000, 6_566, 6_665, 6_666, 6_667, 6_668, 6_669, 6_697];

async function listen(server: Server): Promise<number> {
  for (const port of BLOCKED_PORTS)
    try {
      server.listen(port, "127.0.0.1");
      await once(server, "listening");
      return (server.address() as AddressInfo).port;
    } catch {
      // Taken: the next one.
    }
  throw new Error("all blocked ports are taken");
}

it("regression: reaches a relay at a port that fetch refuses: relay replay said that it does not answer", async () => {
  await using server = createServer((request, response) => {
    void text(request).then((body) => {
      if (request.method === "DELETE") return response.writeHead(204).end();
      response.writeHead(201, { "x-twice": ["a", "b"], "retry-after": "3" });
      return response.end(
        JSON.stringify([request.method, request.url, request.headers["x-key"], body]),
      );
    });
  });
  const url = `http://127.0.0.1:${await listen(server)}/projects?page=1`;
  await expect(fetch(url)).rejects.toThrow("fetch failed");

  const headers = { "x-key": "k" };
  const posted = await fetchAnyPort(url, { method: "POST", headers, body: "ä" });
  expect(posted.status).toBe(201);
  expect(posted.headers.get("x-twice")).toBe("a, b");
  expect(await posted.json()).toEqual(["POST", "/projects?page=1", "k", "ä"]);
  expect(await (await fetchAnyPort(url)).json()).toEqual(["GET", "/projects?page=1", null, ""]);
  const deleted = await fetchAnyPort(url, { method: "DELETE" });
  expect([deleted.status, await deleted.text()]).toEqual([204, ""]);
  server.closeAllConnections();
});

it("ends with its signal", async () => {
  await using server = createServer(() => {}).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  await expect(fetchAnyPort(url, { signal: AbortSignal.timeout(50) })).rejects.toMatchObject({
    name: "TimeoutError",
  });
  server.closeAllConnections();
});
