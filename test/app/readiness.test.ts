import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { makeRelayProcess } from "../support/relay-process.ts";

interface Readiness {
  readonly parts: readonly { readonly name: string }[];
}

it("a relay that still starts is not ready: traffic would come before it listens", async () => {
  await using relay = await makeRelayProcess();
  const starting = relay.start();
  // Its outcome is checked below.
  starting.catch(() => {});
  const url = `http://127.0.0.1:${relay.ports.ops}/readyz`;
  let ready: Response | null = null;
  while (ready === null) {
    const answer = await fetch(url).catch(() => null);
    if (answer?.status === 200) ready = answer;
    else {
      await answer?.arrayBuffer();
      await Promise.race([sleep(10), starting]);
    }
  }
  const names = ((await ready.json()) as Readiness).parts.map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(["log", "delivery", "ingest", "api"]));
  const post = { method: "POST", body: "{}" };
  expect((await fetch(`http://127.0.0.1:${relay.ports.ingest}/in/none`, post)).status).toBe(404);
  await starting;
});
