import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeTestClient } from "../../support/api-harness.ts";
import type { ApiHarness, TestClient } from "../../support/api-harness.ts";
import {
  SAMPLES,
  UNKNOWN_IDS,
  fillPath,
  idNamesOf,
  idsOf,
  makeWorld,
  sampleOf,
} from "../../support/api-world.ts";
import type { Ids } from "../../support/api-world.ts";
import { waitFor } from "../../support/wait-for.ts";
import { ROWS } from "./rows.ts";
import { SPECIFICATION } from "./specification.ts";

/** Declares the same suite for any composition of the API: every row, and that no operation or status lacks one. */
export function describeApiConformance(name: string, start: () => Promise<ApiHarness>): void {
  describe(`the management API on ${name}`, () => {
    let harness: ApiHarness;
    let client: TestClient;
    beforeAll(async () => {
      harness = await start();
      client = await makeTestClient(harness, null);
    });
    afterAll(() => harness[Symbol.asyncDispose]());

    for (const row of ROWS)
      it(`${row.operation} answers ${row.status} when ${row.when}`, async (context) => {
        if (row.needs !== undefined && !harness.faults.has(row.needs)) {
          context.skip(`this composition cannot make the fault ${row.needs}`);
          return;
        }
        const world = await makeWorld(harness, client);
        const request = await row.prepare(world, harness);
        const [eventId] = /evt_\w+/.exec(request.path) ?? [];
        // The API waits two seconds for a new event; on a busy machine it may come later, so ask again.
        if (eventId !== undefined && (row.status < 300 || row.status === 409))
          await waitFor("the event", async () => {
            const path = `/events/${eventId}`;
            const { status } = await client.send({ method: "GET", path, key: world.key });
            return status !== 404;
          });
        using _fault = row.needs === undefined ? null : harness.fault(row.needs);
        const answer = await client.send(request);
        expect(answer.status, answer.text).toBe(row.status);
        expect(answer.json?.error?.code ?? null).toBe(row.code);
      });

    it("has a row for every operation and status of the specification", () => {
      const rows = new Set(ROWS.map((row) => `${row.operation} ${row.status}`));
      for (const [operation, statuses] of Object.entries(SPECIFICATION))
        for (const status of statuses) expect(rows).toContain(`${operation} ${status}`);
    });

    it("documents exactly the operations of the specification, and has a row for every status documented", () => {
      const rows = new Set(ROWS.map((row) => `${normalize(row.operation)} ${row.status}`));
      const documented = Object.entries(client.document.paths).flatMap(([path, operations]) =>
        Object.entries(operations).map(
          ([method, operation]) =>
            [`${method.toUpperCase()} ${path}`, Object.keys(operation.responses)] as const,
        ),
      );
      expect(documented.map(([operation]) => normalize(operation)).sort()).toEqual(
        Object.keys(SPECIFICATION).map(normalize).sort(),
      );
      for (const [operation, statuses] of documented)
        for (const status of statuses) expect(rows).toContain(`${normalize(operation)} ${status}`);
    });

    for (const { operation } of SAMPLES)
      for (const foreign of idNamesOf(operation))
        it(`${operation} answers another organization's ${foreign} as an unknown one, byte for byte`, async () => {
          const mine = await makeWorld(harness, client);
          const theirs = await makeWorld(harness, client);
          const ask = async (id: Ids) => {
            const { json } = sampleOf(operation);
            const request = { ...fillPath(operation, { ...idsOf(mine), ...id }), key: mine.key };
            const answer = await client.send(json === undefined ? request : { ...request, json });
            const headers = [...answer.headers].filter(([header]) => !VARYING.has(header));
            return { status: answer.status, text: maskTime(answer.text), headers };
          };
          const unknown = await ask({ [foreign]: UNKNOWN_IDS[foreign]! });
          expect(await ask({ [foreign]: idsOf(theirs)[foreign]! })).toEqual(unknown);
          expect(unknown.status).toBe(404);
        });

    it("lists and searches hold nothing of another organization", async () => {
      const mine = await makeWorld(harness, client);
      const theirs = await makeWorld(harness, client);
      const paths = [
        "/projects?limit=100",
        "/events?limit=100",
        `/events?endpoint_id=${theirs.endpointId}`,
      ];
      for (const path of [...paths, "/events/facets"]) {
        const answer = await client.send({ method: "GET", path, key: mine.key });
        expect(answer.text).not.toContain(theirs.orgId);
        if (path.includes(theirs.endpointId)) expect(answer.json.pagination.total).toBe(0);
      }
    });
  });
}

const VARYING = new Set(["x-request-id", "date"]);

function maskTime(text: string): string {
  return text.replace(/"timestamp":"[^"]+"/, '"timestamp":""');
}

/** Strips parameter names from a path: the document and the rows name them differently. */
function normalize(operation: string): string {
  return operation.replaceAll(/\{\w+\}/g, "{}");
}
