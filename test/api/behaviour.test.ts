import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeTestClient, startFakeHarness } from "../support/api-harness.ts";
import type { FakeHarness } from "../support/api-harness.ts";
import { expectStatus, makeWorld } from "../support/api-world.ts";
import type { World } from "../support/api-world.ts";
import { RelayError } from "../../src/domain/errors.ts";
import { waitFor } from "../support/wait-for.ts";

let harness: FakeHarness;
let world: World;
beforeAll(async () => {
  harness = await startFakeHarness();
  world = await makeWorld(harness, await makeTestClient(harness, null));
});
afterAll(() => harness[Symbol.asyncDispose]());

const send = (method: string, path: string, json?: unknown) =>
  world.client.send({ method, path, key: world.key, ...(json === undefined ? {} : { json }) });

describe("answers", () => {
  it("of an endpoint never hold its secret or its settings", async () => {
    const path = `/projects/${world.projectId}/endpoints`;
    const json = {
      name: "Custom",
      provider: "custom",
      verification_method: "hmac_sha256",
      secret: "canary-secret",
      verification_config: { header: "x-canary" },
    };
    const created = expectStatus(await send("POST", path, json), 201);
    expect(created.text).not.toContain("canary");
    expect(harness.fake.lastEndpointInput).toEqual({
      name: "Custom",
      provider: "custom",
      verificationMethod: "hmac_sha256",
      secret: "canary-secret",
      verificationConfig: { header: "x-canary" },
    });
    for (const answer of [
      await send("GET", `/endpoints/${created.json.data.id}`),
      await send("GET", path),
    ])
      expect(answer.text).not.toContain("canary");
    expect(JSON.stringify(harness.logs)).not.toContain("canary");
  });

  it("of a destination hold its secret once, at creation", async () => {
    const path = `/endpoints/${world.endpointId}/destinations`;
    const created = await send("POST", path, {
      name: "Once",
      receiver_url: "https://hooks.example.com/once",
    });
    expect(created.json.data.service_secret).toMatch(/^whsec_/);
    const read = await send("GET", `/destinations/${created.json.data.id}`);
    expect(read.json.data).not.toHaveProperty("service_secret");
    expect(created.json.data).toMatchObject(read.json.data);
  });

  it("of a PATCH with null limits pass the nulls on, and leave out what was not given", async () => {
    const path = `/destinations/${world.destinationId}`;
    expectStatus(await send("PATCH", path, { rate_limit_max: null, rate_limit_window: null }), 200);
    expect(harness.fake.lastDestinationInput).toEqual({
      rateLimitMax: null,
      rateLimitWindow: null,
    });
    expectStatus(await send("PATCH", path, {}), 200);
    expect(harness.fake.lastDestinationInput).toEqual({});
  });

  it("of events have a delivery summary only when asked, and null before the fan-out", async () => {
    const find = (answer: any) => answer.json.data.find((event: any) => event.id === world.eventId);
    expect(find(await send("GET", "/events"))).not.toHaveProperty("delivery_summary");
    expect(find(await send("GET", "/events?delivery_summary=false"))).not.toHaveProperty(
      "delivery_summary",
    );
    expect(find(await send("GET", "/events?delivery_summary=true")).delivery_summary).toBeNull();
    const event = harness.fake.events.get(world.eventId)!;
    harness.fake.addAttempt(event, harness.fake.destinations.get(world.destinationId)!);
    expect(find(await send("GET", "/events?delivery_summary=true")).delivery_summary).toEqual({
      delivered: 1,
      failed: 0,
      pending: 0,
      total: 1,
    });
  });

  it("of one event hold headers in order, the raw payload and the attempts", async () => {
    const endpoint = harness.fake.endpoints.get(world.endpointId)!;
    const event = harness.fake.addEvent(endpoint, {
      body: Buffer.from([0xff, 0x01]),
      query: "a=1&a=2",
      headers: [
        ["X-A", "1"],
        ["x-b", "2"],
        ["X-A", "3"],
      ],
      contentType: null,
      signatureValid: false,
      verificationError: "signature mismatch",
    });
    harness.fake.addAttempt(event, harness.fake.destinations.get(world.destinationId)!, {
      status: "timeout",
      httpStatus: 0,
      nextRetryAtMs: Date.UTC(2026, 10, 20, 1),
    });
    const { data } = expectStatus(await send("GET", `/events/${event.id}`), 200).json;
    expect(data).toMatchObject({
      id: event.id,
      query: "a=1&a=2",
      headers: [
        { name: "X-A", value: "1" },
        { name: "x-b", value: "2" },
        { name: "X-A", value: "3" },
      ],
      content_type: null,
      payload: "/wE=",
      payload_encoding: "base64",
      signature_valid: false,
      verification_error: "signature mismatch",
      received_at: new Date(event.receivedAtMs).toISOString(),
    });
    expect(data.attempts).toHaveLength(1);
    expect(data.attempts[0]).toMatchObject({
      http_status: 0,
      next_retry_at: "2026-11-20T01:00:00.000Z",
    });
    const attempts = await send("GET", `/events/${event.id}/attempts`);
    expect(attempts.json.data).toEqual(data.attempts);
    expect(attempts.json).not.toHaveProperty("pagination");
  });

  it("of facets hold counts", async () => {
    const answer = await send(
      "GET",
      `/events/facets?endpoint_id=${world.endpointId}&signature_valid=false`,
    );
    expect(answer.json.data).toMatchObject({
      total_events: 1,
      by_signature_valid: [{ value: false, count: 1 }],
    });
  });

  it("of a deleted thing are 404, and lists leave it out", async () => {
    const other = await makeWorld(harness, world.client);
    const ask = (method: string, path: string) =>
      world.client.send({ method, path, key: other.key });
    expectStatus(await ask("DELETE", `/destinations/${other.destinationId}`), 204);
    expectStatus(await ask("GET", `/destinations/${other.destinationId}`), 404);
    const list = await ask("GET", `/endpoints/${other.endpointId}/destinations`);
    expect(list.json.pagination.total).toBe(0);
  });

  it("page through everything without gaps or doubles", async () => {
    const { key } = await harness.newKey();
    const ask = (path: string) => world.client.send({ method: "GET", path, key });
    for (let index = 0; index < 7; index += 1)
      await world.client.send({
        method: "POST",
        path: "/projects",
        key,
        json: { name: `p ${index}` },
      });
    const names: string[] = [];
    for (let page = 1; ; page += 1) {
      const { data, pagination } = (await ask(`/projects?page=${page}&limit=3`)).json;
      names.push(...data.map((project: any) => project.name));
      expect(pagination).toMatchObject({
        page,
        limit: 3,
        total: 7,
        total_pages: 3,
        has_prev: page > 1,
      });
      if (!pagination.has_next) break;
    }
    expect(names).toEqual(["p 6", "p 5", "p 4", "p 3", "p 2", "p 1", "p 0"]);
    expect((await ask("/projects?page=4&limit=3")).json).toMatchObject({
      data: [],
      pagination: { has_next: false },
    });
    expect((await ask("/projects")).json.pagination).toMatchObject({ page: 1, limit: 50 });
  });
});

describe("the log", () => {
  it("has a line per request, with the caller and without the key", async () => {
    const answer = await send("GET", "/projects");
    const line = harness.logs.find(
      ({ fields }) => fields.requestId === answer.headers.get("x-request-id"),
    );
    expect(line).toMatchObject({
      level: "info",
      message: "api.answered",
      fields: { operation: "listProjects", method: "GET", status: 200, orgId: world.orgId },
    });
    expect(JSON.stringify(harness.logs)).not.toContain(world.key);
  });

  it("has the cause of a 500 under the id that the answer names", async () => {
    using _fault = harness.fault("internal");
    const answer = await send("GET", "/projects");
    const requestId = answer.headers.get("x-request-id")!;
    expect(answer.json.error.message).toContain(requestId);
    expect(answer.text).not.toContain("hunter2");
    const line = harness.logs.find(
      ({ level, fields }) => level === "error" && fields.requestId === requestId,
    );
    expect(line!.fields.err.message).toContain("postgres://");
  });

  it("regression: warns of what is unavailable or busy, with its cause: questions of one tenant to a busy store were hundreds of errors", async () => {
    using _fault = harness.fault("unavailable");
    const answer = await send("GET", "/projects");
    expect(answer.status).toBe(503);
    const requestId = answer.headers.get("x-request-id")!;
    const line = harness.logs.find(
      ({ message, fields }) => message === "api.failed" && fields.requestId === requestId,
    );
    expect(line).toMatchObject({ level: "warn", fields: { code: "unavailable" } });
    expect(line!.fields.err).toBeInstanceOf(Error);
  });
});

it("a limit says how long to wait", async () => {
  using _fault = harness.fault("rate_limited");
  expect((await send("GET", "/projects")).headers.get("retry-after")).toBe("7");
});

it("metrics get the operation, the status and the seconds", async () => {
  const seen: [string, number, number][] = [];
  let steadyMs = 0;
  await using other = await startFakeHarness({
    monotonicMs: () => (steadyMs += 250),
    metrics: { answered: (...args) => void seen.push(args) },
  });
  await fetch(`${other.baseUrl}/projects`);
  await fetch(`${other.baseUrl}/nowhere`);
  expect(seen.map(([operation, status]) => [operation, status])).toEqual([
    ["listProjects", 401],
    ["none", 404],
  ]);
  expect(seen.map(([, , seconds]) => seconds)).toEqual([0.25, 0.25]);
});

it("a request during which the wall clock is set took no hour: its latency was the difference of two readings of that clock", async () => {
  const seen: number[] = [];
  let wallMs = Date.UTC(2026, 10, 20, 9, 30);
  let steadyMs = 0;
  await using other = await startFakeHarness({
    now: () => (wallMs += 3_600_000),
    monotonicMs: () => (steadyMs += 2),
    metrics: { answered: (_operation, _status, seconds) => void seen.push(seconds) },
  });
  await fetch(`${other.baseUrl}/projects`);
  expect(seen).toEqual([0.002]);
});

describe("a client that hangs up", () => {
  const left = (signal: AbortSignal | undefined): Promise<never> =>
    new Promise((_, reject) =>
      signal?.addEventListener("abort", () =>
        reject(new RelayError("unavailable", "The event store does not answer")),
      ),
    );

  it.each(["/events?q=common", "/events/facets?q=common"])(
    "ends what it asked %s for, which is no error of the service",
    async (path) => {
      const asked: string[] = [];
      const { queries } = harness.fake;
      const slow = (signal: AbortSignal | undefined): Promise<never> => {
        asked.push(path);
        return left(signal);
      };
      await using own = await startFakeHarness({
        management: harness.fake.management,
        queries: {
          ...queries,
          list: async (...[, , , , signal]) => slow(signal),
          facets: async (...[, , signal]) => slow(signal),
        },
      });
      const gone = new AbortController();
      const request = fetch(own.baseUrl + path, {
        headers: { authorization: `Bearer ${world.key}` },
        signal: gone.signal,
      }).catch(() => null);
      await waitFor("the question", () => asked.length === 1);
      gone.abort();
      await request;
      await waitFor("its line", () => own.logs.length > 0);
      expect(own.logs).toMatchObject([{ message: "api.answered", fields: { status: 499 } }]);
    },
  );

  it("hides no fault of the service that came of its request", async () => {
    let asked = false;
    let fail: (fault: Error) => void = () => {};
    const facets = () => {
      asked = true;
      return new Promise<never>((_, reject) => (fail = reject));
    };
    const { management, queries } = harness.fake;
    await using own = await startFakeHarness({ management, queries: { ...queries, facets } });
    const gone = new AbortController();
    const request = fetch(`${own.baseUrl}/events/facets`, {
      headers: { authorization: `Bearer ${world.key}` },
      signal: gone.signal,
    }).catch(() => null);
    await waitFor("the question", () => asked);
    gone.abort();
    await request;
    // The server has heard of it once this is answered.
    await fetch(`${own.baseUrl}/openapi.json`);
    fail(new Error("a fault"));
    await waitFor("its line", () => own.logs.some(({ fields }) => fields.status === 500));
    expect(own.logs).toContainEqual(
      expect.objectContaining({ message: "api.failed", level: "error" }),
    );
  });
});
