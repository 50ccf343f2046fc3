import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { makeCheckedClient } from "../support/checked-client.ts";

const PROJECT = {
  id: "prj_01JD5Z8A4V3MJ0Y6T1Q2W7X9KP",
  org_id: "org_01JD5Z7000000000000000AAAA",
  name: "Billing",
  slug: "billing",
  created_at: "2026-11-20T09:30:00.000Z",
};
const TIMESTAMP = "2026-11-20T09:30:00.000Z";

/** Makes a client of a service that always gives this answer. */
function clientOf(status: number, body: object, headers: Record<string, string> = {}) {
  return makeCheckedClient({
    baseUrl: "http://relay.invalid",
    apiKey: "rk_x",
    fetch: async () =>
      new Response(JSON.stringify(body), {
        status,
        headers: { "content-type": "application/json", "x-request-id": "1", ...headers },
      }),
  });
}

const failure = (code: string) => ({ error: { code, message: "No." }, timestamp: TIMESTAMP });

it("lets a documented answer through", async () => {
  const client = clientOf(200, { data: PROJECT, timestamp: TIMESTAMP });
  expect(await client.projects.get(PROJECT.id)).toEqual(PROJECT);
  await expect(clientOf(404, failure("not_found")).projects.get(PROJECT.id)).rejects.toMatchObject({
    code: "not_found",
  });
});

it.each([
  ["a field that is not documented", 200, { ...PROJECT, secret: "x" }, {}, /additional properties/],
  ["a field that is missing", 200, { ...PROJECT, slug: undefined }, {}, /slug/],
  ["a field of another type", 200, { ...PROJECT, name: 1 }, {}, /name must be string/],
  ["a content type of its own", 200, PROJECT, { "content-type": "text/json" }, /content-type/],
  ["a status that is not documented", 202, PROJECT, {}, /undocumented status/],
  ["a status of another operation", 201, PROJECT, {}, /undocumented status/],
])("refuses %s", async (_, status, data, headers, message) => {
  const client = clientOf(status, { data, timestamp: TIMESTAMP }, headers);
  await expect(client.projects.get(PROJECT.id)).rejects.toThrow(message);
});

it("refuses an error that is not documented, or lacks its header", async () => {
  await expect(clientOf(418, failure("teapot")).projects.list()).rejects.toThrow(
    /undocumented status/,
  );
  await expect(clientOf(429, failure("rate_limited")).projects.list()).rejects.toThrow(
    /header retry-after is missing/,
  );
});

it("is the one client of the tests: none asks the management API without its answers being judged", () => {
  const root = fileURLToPath(new URL("../", import.meta.url));
  const unchecked = readdirSync(root, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .filter((file) =>
      /\bmakeClient\(|\bfetch\([^)]*(?:apiUrl|ports\.api|apiPort)/.test(
        readFileSync(root + file, "utf8"),
      ),
    );
  expect(unchecked.toSorted()).toEqual(["client/client.test.ts", "support/checked-client.ts"]);
});
