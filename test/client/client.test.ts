import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiError } from "../../src/client/api-error.ts";
import { makeClient } from "../../src/client/client.ts";
import type { Client } from "../../src/client/client.ts";
import { makeCheckedClient } from "../support/checked-client.ts";
import { startFakeHarness } from "../support/api-harness.ts";
import type { FakeHarness } from "../support/api-harness.ts";
import { startApiServer } from "../../src/api/start-api-server.ts";

let harness: FakeHarness;
let client: Client;
beforeAll(async () => {
  harness = await startFakeHarness();
  const { key } = await harness.newKey();
  client = makeCheckedClient({ baseUrl: `${harness.baseUrl}/`, apiKey: key });
});
afterAll(() => harness[Symbol.asyncDispose]());

describe("the client", () => {
  it("takes no answer without the envelope for one of the relay: a page of HTML with 200 threw a TypeError", async () => {
    for (const text of ["<html></html>", "null", "[]", ""]) {
      const answering = async (): Promise<Response> => new Response(text);
      const elsewhere = makeClient({ baseUrl: "http://relay", apiKey: "x", fetch: answering });
      for (const asked of [elsewhere.projects.list(), elsewhere.projects.get("prj_1")]) {
        const error: unknown = await asked.catch((thrown: unknown) => thrown);
        expect(error).toBeInstanceOf(ApiError);
        expect(error).toMatchObject({ status: 200, code: "unexpected_answer" });
        expect((error as Error).message).toContain("is http://relay its management API?");
      }
    }
  });

  it("walks through all operations", async () => {
    const project = await client.projects.create({ name: "Client" });
    expect(await client.projects.get(project.id)).toEqual(project);
    expect((await client.projects.update(project.id, { slug: "walk" })).slug).toBe("walk");
    expect((await client.projects.list({ limit: 1 })).pagination.total).toBe(1);

    const endpoint = await client.endpoints.create(project.id, {
      name: "Stripe",
      provider: "stripe",
      secret: "whsec_x",
    });
    expect((await client.endpoints.list(project.id)).data).toEqual([endpoint]);
    expect((await client.endpoints.update(endpoint.id, { name: "Renamed" })).name).toBe("Renamed");
    expect((await client.endpoints.get(endpoint.id)).name).toBe("Renamed");
    expect((await client.endpoints.pause(endpoint.id)).status).toBe("paused");
    expect((await client.endpoints.resume(endpoint.id)).status).toBe("active");
    expect((await client.endpoints.rotateSecret(endpoint.id)).secret).toBeTruthy();

    const destination = await client.destinations.create(endpoint.id, {
      name: "Ledger",
      receiver_url: "https://hooks.example.com/ledger",
    });
    expect(destination.service_secret).toMatch(/^whsec_/);
    expect((await client.destinations.list(endpoint.id)).data).toHaveLength(1);
    expect((await client.destinations.get(destination.id)).name).toBe("Ledger");
    expect(
      (await client.destinations.update(destination.id, { retry_max_attempts: 0 }))
        .retry_max_attempts,
    ).toBe(0);
    expect((await client.destinations.pause(destination.id)).status).toBe("paused");
    expect((await client.destinations.resume(destination.id)).status).toBe("active");
    expect((await client.destinations.rotateSecret(destination.id)).service_secret).toMatch(
      /^whsec_/,
    );

    const test = await client.endpoints.test(endpoint.id);
    expect(test).toMatchObject({ accepted: true, status: 200 });
    const found = await client.events.search({
      signature_valid: true,
      endpoint_id: endpoint.id,
      delivery_summary: true,
    });
    expect(found.data.map((event) => event.id)).toEqual([test.event_id]);
    const eventId = found.data[0]!.id;
    expect((await client.events.facets({ provider: "stripe" })).total_events).toBe(1);
    expect((await client.events.get(eventId)).payload).toBe('{"type":"ping"}');
    expect(await client.events.attempts(eventId)).toEqual([]);
    expect((await client.events.replay(eventId)).enqueued).toEqual([
      { destination_id: destination.id },
    ]);
    expect((await client.events.replayTo(eventId, destination.id)).destination_id).toBe(
      destination.id,
    );

    await client.destinations.delete(destination.id);
    await client.endpoints.delete(endpoint.id);
    await client.projects.delete(project.id);
    expect((await client.projects.list()).data).toEqual([]);
  });

  it("throws what the service says, with its code and its request id", async () => {
    const failure = await client.projects.get("prj_x/../y?z").catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(ApiError);
    expect(failure).toMatchObject({ status: 404, code: "not_found", message: "Project not found" });
    expect((failure as ApiError).requestId).toMatch(/^req_/);
  });

  it("asks nothing about an id of dots: a replay to one destination became one to all", async () => {
    let asked = 0;
    const traced = makeClient({
      baseUrl: harness.baseUrl,
      apiKey: "rk_x",
      fetch: async () => {
        asked += 1;
        return Response.json({ data: {} });
      },
    });
    const invalid = { status: 0, code: "invalid_id" };
    for (const id of [".", ".."]) {
      await expect(traced.events.replayTo("evt_1", id)).rejects.toMatchObject(invalid);
      await expect(traced.projects.get(id)).rejects.toMatchObject(invalid);
    }
    expect(asked).toBe(0);
    await traced.events.get("...");
    await traced.events.search({ q: "/../" });
    expect(asked).toBe(2);
  });

  it("says how long to wait", async () => {
    using _fault = harness.fault("unavailable");
    await expect(client.events.search()).rejects.toMatchObject({
      status: 503,
      code: "unavailable",
      retryAfterSeconds: 5,
    });
  });

  it("says that nobody answers", async () => {
    const server = await startApiServer({
      app: { fetch: () => new Response("") },
      host: "127.0.0.1",
      port: 0,
    });
    await server[Symbol.asyncDispose]();
    const lonely = makeClient({ baseUrl: `http://127.0.0.1:${server.port}`, apiKey: "rk_x" });
    await expect(lonely.projects.list()).rejects.toMatchObject({
      status: 0,
      code: "unreachable",
      message: `The relay at http://127.0.0.1:${server.port} does not answer (ECONNREFUSED): is it running?`,
    });
  });

  it("regression: says that fetch refuses the port: a relay at such a port was said not to answer", async () => {
    const refused = makeClient({ baseUrl: "http://127.0.0.1:10080", apiKey: "rk_x" });
    await expect(refused.projects.list()).rejects.toMatchObject({
      status: 0,
      code: "unreachable",
      message: expect.stringMatching(/^fetch refuses the port in http:\/\/127\.0\.0\.1:10080, /),
    });
  });

  it("never repeats the key in what it says, not even one that no header can carry", async () => {
    const broken = makeClient({ baseUrl: harness.baseUrl, apiKey: "rk_\nCANARY" });
    const error = await broken.projects.list().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "invalid_options" });
    expect((error as Error).message).not.toContain("CANARY");
  });

  it.each(["localhost:8080", "127.0.0.1:8080", "", "ftp://relay", "http://user:CANARY@relay"])(
    "regression: names the option baseUrl when it is %j: it asked whether the relay was running",
    async (baseUrl) => {
      const mistaken = makeClient({ baseUrl, apiKey: "rk_x" });
      await expect(mistaken.projects.list()).rejects.toMatchObject({
        status: 0,
        code: "invalid_options",
        message:
          "baseUrl must be http(s)://host[:port][/path], without user, query or fragment, such as http://localhost:8080",
      });
    },
  );

  it("takes a key with the line break of the file that it is from, and names the option apiKey for one that no header can carry: it asked whether the relay was running", async () => {
    const { key } = await harness.newKey();
    const fromFile = makeClient({ baseUrl: harness.baseUrl, apiKey: `${key}\n` });
    expect((await fromFile.projects.list()).data).toEqual([]);
    for (const apiKey of ["rk_ключ", `${key}\n${key}`]) {
      const mistaken = makeClient({ baseUrl: harness.baseUrl, apiKey });
      await expect(mistaken.projects.list()).rejects.toMatchObject({
        code: "invalid_options",
        message: expect.stringMatching(/^apiKey must be /),
      });
    }
  });

  it("regression: asks for an id that no id can be, too: half a surrogate pair ended in a URIError", async () => {
    await expect(client.projects.get("\ud800")).rejects.toMatchObject({ code: "not_found" });
  });

  it("gives up after its time", async () => {
    await using server = await startApiServer({
      app: {
        fetch: () =>
          new Promise<Response>((resolve) => setTimeout(() => resolve(new Response("")), 300)),
      },
      host: "127.0.0.1",
      port: 0,
    });
    const hasty = makeClient({
      baseUrl: `http://127.0.0.1:${server.port}`,
      apiKey: "rk_x",
      timeoutMs: 50,
    });
    await expect(hasty.projects.list()).rejects.toMatchObject({ code: "unreachable" });
  });

  it("reports an answer that is no envelope, as a proxy's", async () => {
    const proxied = makeClient({
      baseUrl: "http://relay.invalid",
      apiKey: "rk_x",
      fetch: async () => new Response("<h1>Bad gateway</h1>", { status: 502 }),
    });
    await expect(proxied.projects.list()).rejects.toMatchObject({
      status: 502,
      code: "unexpected_answer",
    });
  });
});
