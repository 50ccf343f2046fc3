import { describe, expect, it } from "vitest";
import { makeApi } from "../../src/api/api.ts";
import { makeBodyRoom } from "../../src/api/body-room.ts";
import { ApiFake } from "../support/api-fake.ts";
import { silentLogger } from "../support/silent-logger.ts";
import { waitFor } from "../support/wait-for.ts";

/** Under the most that one body may be. */
const SENT_BYTES = 1_000_000;
/** As many as fit into the room of an organization. */
const MOST = 33;

describe("bodies on their way", () => {
  it("regression: of one organization take a bounded share of memory: those half sent on 600 connections took 400 MB, and on more connections more", async () => {
    const fake = new ApiFake();
    const app = makeApi({
      management: fake.management,
      queries: fake.queries,
      logger: silentLogger,
      newRequestId: () => "req_1",
      now: () => 0,
      monotonicMs: () => 0,
      version: "0.0.0",
    });
    const keys = { org_a: fake.addKey("org_a"), org_b: fake.addKey("org_b") };
    const post = async (org: keyof typeof keys, body: string | ReadableStream) => {
      const headers = { authorization: `Bearer ${keys[org]}`, "content-type": "application/json" };
      const init: RequestInit = { method: "POST", body, duplex: "half", headers };
      return app.request("/projects", init);
    };
    const half: ReadableStreamDefaultController[] = [];
    let taken = 0;
    const sendHalf = () => {
      let pulls = 0;
      const body = new ReadableStream(
        {
          start: (controller) => void half.push(controller),
          pull(controller) {
            pulls += 1;
            if (pulls === 1) controller.enqueue(new Uint8Array(SENT_BYTES));
            else taken += 1;
          },
        },
        { highWaterMark: 0 },
      );
      return post("org_a", body);
    };
    const held = Array.from({ length: MOST }, sendHalf);
    await waitFor("all to be read", () => taken === MOST);

    const refused = await sendHalf();
    expect(refused.status).toBe(429);
    expect(refused.headers.get("retry-after")).toBe("1");
    expect(await refused.json()).toMatchObject({ error: { code: "rate_limited" } });
    expect((await post("org_b", '{"name":"Other"}')).status).toBe(201);

    for (const controller of half) controller.error(new Error("hung up"));
    for (const answer of await Promise.all(held)) expect(answer.status).toBe(400);
    expect((await post("org_a", `{"name":"${"x".repeat(SENT_BYTES)}"}`)).status).toBe(400);
    expect((await post("org_a", '{"name":"Same"}')).status).toBe(201);
  });

  it("leave room for others when they end, and only once", () => {
    const room = makeBodyRoom(10);
    const first = room("org_a");
    first.add(4);
    first.add(6);
    const second = room("org_a");
    expect(() => second.add(1)).toThrow("send a few at a time");
    second[Symbol.dispose]();
    room("org_b").add(10);
    first[Symbol.dispose]();
    first[Symbol.dispose]();
    second.add(10);
    expect(() => room("org_a").add(1)).toThrow("send a few at a time");
  });
});
