import { expect, it } from "vitest";
import { writeJson } from "../../src/api/write-json.ts";
import { startFakeHarness } from "../support/api-harness.ts";
import { makeWorld } from "../support/api-world.ts";
import { waitFor } from "../support/wait-for.ts";

it("regression: a large answer is not written to its end for a client that has gone: 10 MB took up to half a second of CPU", async () => {
  await using first = await startFakeHarness();
  const { key, endpointId } = await makeWorld(first);
  const eventId = await first.newEvent(endpointId, { body: Buffer.alloc(10_000_000, 1) });
  const { management, queries } = first.fake;
  const gone = new AbortController();
  let isAsked = false;
  await using harness = await startFakeHarness({
    management,
    queries: {
      ...queries,
      detail: async (...of) => {
        isAsked = true;
        await waitFor("the client to go", () => gone.signal.aborted);
        return queries.detail(...of);
      },
    },
  });
  const headers = { authorization: `Bearer ${key}` };
  const request = fetch(`${harness.baseUrl}/events/${eventId}`, { headers, signal: gone.signal });
  const failed = request.catch(() => null);
  await waitFor("the question", () => isAsked);
  gone.abort();
  await failed;
  await waitFor("its line", () => harness.logs.length > 0);
  expect(harness.logs).toMatchObject([{ message: "api.answered", fields: { status: 499 } }]);
});

it("what a turn throws ends the writing of a long text, and of a large answer's bytes", async () => {
  for (const last of [1, 170]) {
    let turns = 0;
    const writing = writeJson({ text: "x".repeat(10_000_000) }, async () => {
      turns += 1;
      if (turns === last) throw new Error("gone");
    });
    await expect(writing).rejects.toThrow("gone");
    expect(turns).toBe(last);
  }
});
