import { describe, expect, test } from "vitest";
import { MISSING, UNAVAILABLE } from "../../../src/domain/destination.ts";
import { timeOfId } from "../../../src/domain/ids.ts";
import { LogError } from "../../../src/domain/log.ts";
import type { NewRecord } from "../../../src/domain/log.ts";
import type { Answer, Reception, RequestHead } from "../../../src/domain/incoming-request.ts";
import type { VerificationResult } from "../../../src/domain/verification.ts";
import type { IngestPorts } from "../../../src/pipeline/ingest/ports.ts";
import { decodeEvent } from "../../../src/pipeline/log/event-codec.ts";
import { TOKEN, endpointConfig, ingestRig, realClock } from "../../support/ingest.ts";
import type { IngestRig } from "../../support/ingest.ts";
import { until } from "../../support/wait-for.ts";

const BODY = Buffer.from('{"id":"evt_1"}');

function headOf(overrides: Partial<RequestHead> = {}): RequestHead {
  return {
    method: "POST",
    path: `/in/${TOKEN}`,
    query: null,
    headers: [
      ["host", "x"],
      ["content-type", "application/json"],
    ],
    remoteAddress: "192.0.2.7",
    declaredBytes: BODY.length,
    ...overrides,
  };
}

/** Runs one request to its answer. */
async function send(
  rig: IngestRig,
  overrides: Partial<RequestHead> = {},
  body: Uint8Array = BODY,
): Promise<Answer> {
  const answers: Answer[] = [];
  const reception = await rig.ingest.handle(headOf(overrides), (answer) => answers.push(answer));
  if (reception?.hold(body.length)) reception.complete(body);
  await until(() => answers.length > 0);
  expect(answers).toHaveLength(1);
  return answers[0] as Answer;
}

function statusOf(answer: Answer): number {
  return Number(answer.status.slice(0, 3));
}

const ACCEPTED: VerificationResult = { valid: true, reason: "ok", message: null };

const refusal: VerificationResult = {
  valid: false,
  reason: "signature_mismatch",
  message: "The signature does not match",
};

describe("what is answered and what is recorded", () => {
  test("a genuine webhook is durable before its 200, which names the event", async () => {
    const rig = ingestRig();
    const answer = await send(rig, { query: "a=1" });
    const [event] = rig.log.events;
    expect(statusOf(answer)).toBe(200);
    expect(JSON.parse(answer.body)).toEqual({
      data: { event_id: event?.id },
      timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    });
    expect(answer.eventId).toBe(event?.id);
    expect(event).toMatchObject({
      method: "POST",
      path: `/in/${TOKEN}`,
      query: "a=1",
      sourceIp: "192.0.2.7",
      contentType: "application/json",
      signatureValid: true,
      verificationError: null,
      reason: "ok",
      bodyStored: true,
      payloadSizeBytes: BODY.length,
    });
    expect(Buffer.from(event?.body ?? [])).toEqual(BODY);
    expect(timeOfId("event", event?.id ?? "")).toBe(event?.receivedAtMs);
    expect(rig.log.records[0]).toMatchObject({ topic: "events", key: endpointConfig().id });
  });

  test("nothing is answered while the log has not taken the event", async () => {
    const rig = ingestRig();
    rig.log.hold();
    const answers: Answer[] = [];
    const reception = await rig.ingest.handle(headOf(), (answer) => answers.push(answer));
    reception?.hold(BODY.length);
    reception?.complete(BODY);
    await until(() => rig.log.appends.length === 1);
    expect(answers).toHaveLength(0);
    rig.log.letGo();
    await until(() => answers.length === 1);
    expect(answers[0]?.status).toBe("200 OK");
  });

  test.each([
    ["signature_mismatch", 401, "verification_failed"],
    ["ip_not_allowed", 403, "source_not_allowed"],
    ["ip_allowlist_empty", 403, "source_not_allowed"],
    ["ip_unknown", 403, "source_not_allowed"],
  ] as const)(
    "a refusal for %s answers %i %s and is recorded with its body",
    async (reason, status, code) => {
      const rig = ingestRig({ ports: { verify: () => ({ ...refusal, reason }) } });
      const answer = await send(rig);
      expect(statusOf(answer)).toBe(status);
      expect(JSON.parse(answer.body).error).toEqual({ code, message: refusal.message });
      expect(rig.log.events[0]).toMatchObject({
        signatureValid: false,
        reason,
        verificationError: refusal.message,
        bodyStored: true,
        id: answer.eventId,
      });
    },
  );

  test.each([
    ["paused", 409, "endpoint_paused"],
    ["disabled", 403, "endpoint_disabled"],
  ] as const)("a %s endpoint records the event and answers %i", async (state, status, code) => {
    const rig = ingestRig({
      ports: {
        verify: () => {
          throw new Error("must not be asked");
        },
      },
    });
    rig.endpoints.set(TOKEN, endpointConfig({ status: state }));
    const answer = await send(rig);
    expect(statusOf(answer)).toBe(status);
    expect(JSON.parse(answer.body).error.code).toBe(code);
    expect(rig.log.events[0]).toMatchObject({
      signatureValid: false,
      reason: code,
      bodyStored: true,
    });
    expect(rig.log.events[0]?.verificationError).toContain(state);
  });

  test("an announced body over the limit is recorded without it and never read", async () => {
    const rig = ingestRig({ options: { maxPayloadBytes: 1_000 } });
    const answers: Answer[] = [];
    const reception = await rig.ingest.handle(headOf({ declaredBytes: 104_857_600 }), (answer) =>
      answers.push(answer),
    );
    expect(reception).toBeNull();
    await until(() => answers.length === 1);
    expect(answers[0]?.status).toBe("413 Payload Too Large");
    expect(rig.log.events[0]).toMatchObject({
      bodyStored: false,
      payloadSizeBytes: 104_857_600,
      reason: "payload_too_large",
    });
  });

  test("an unannounced body is cut off at the limit, and one of exactly the limit is taken", async () => {
    const rig = ingestRig({ options: { maxPayloadBytes: 1_000 } });
    expect(statusOf(await send(rig, { declaredBytes: null }, Buffer.alloc(1_000)))).toBe(200);
    expect(statusOf(await send(rig, { declaredBytes: null }, Buffer.alloc(1_001)))).toBe(413);
    expect(rig.log.events[1]).toMatchObject({ bodyStored: false, payloadSizeBytes: 1_001 });
  });

  test("a body that is announced with exactly the limit is taken, and so is none at all", async () => {
    const rig = ingestRig({ options: { maxPayloadBytes: 1_000 } });
    for (const body of [Buffer.alloc(1_000), Buffer.alloc(0)])
      expect(statusOf(await send(rig, { declaredBytes: body.length }, body))).toBe(200);
    expect(rig.log.events).toMatchObject([
      { bodyStored: true, payloadSizeBytes: 1_000 },
      { bodyStored: true, payloadSizeBytes: 0 },
    ]);
  });

  test("over the rate limit: 429 with Retry-After, recorded without body", async () => {
    const rig = ingestRig({ options: { rateLimitPerSecond: 2 } });
    const answers = [await send(rig), await send(rig), await send(rig)];
    expect(answers.map(statusOf)).toEqual([200, 200, 429]);
    expect(answers[2]?.extraHeader).toEqual(["retry-after", "1"]);
    expect(rig.log.events[2]).toMatchObject({
      bodyStored: false,
      reason: "rate_limited",
      payloadSizeBytes: BODY.length,
    });
    expect(answers[2]?.eventId).toBe(rig.log.events[2]?.id);
  });

  test("bodies that are announced too large count for the rate limit: as many as could connect were recorded", async () => {
    const rig = ingestRig({ options: { rateLimitPerSecond: 2 } });
    const statuses: number[] = [];
    const head = headOf({ declaredBytes: 104_857_600 });
    for (let sent = 0; sent < 4; sent += 1)
      await rig.ingest.handle(head, (answer) => statuses.push(statusOf(answer)));
    await rig.ingest.handle(headOf(), (answer) => statuses.push(statusOf(answer)));
    await until(() => statuses.length === 5);
    expect(statuses).toEqual([413, 413, 429, 429, 429]);
  });

  test.each(["/in/unknown", "/in/", "/in", "/", `/in/${TOKEN}/`, `/in/${TOKEN}/x`, `/IN/${TOKEN}`])(
    "%s is 404 and not recorded",
    async (path) => {
      const rig = ingestRig();
      const answer = await send(rig, { path });
      expect(statusOf(answer)).toBe(404);
      expect(JSON.parse(answer.body).error.code).toBe("not_found");
      expect(rig.log.records).toHaveLength(0);
    },
  );

  test("methods: the four of the contract, GET for Twilio alone, others 405 with Allow", async () => {
    const rig = ingestRig();
    const statuses: number[] = [];
    for (const method of ["POST", "PUT", "PATCH", "DELETE", "GET", "HEAD", "OPTIONS", "post"])
      statuses.push(statusOf(await send(rig, { method })));
    expect(statuses).toEqual([200, 200, 200, 200, 405, 405, 405, 405]);
    rig.endpoints.set(TOKEN, endpointConfig({ provider: "github", method: "hmac_sha256" }));
    const refused = await send(rig, { method: "GET" });
    expect(statusOf(refused)).toBe(405);
    expect(refused.extraHeader).toEqual(["allow", "POST, PUT, PATCH, DELETE"]);
    rig.endpoints.set(TOKEN, endpointConfig({ provider: "twilio", method: "twilio_signature" }));
    expect(statusOf(await send(rig, { method: "GET" }))).toBe(200);
    expect((await send(rig, { method: "HEAD" })).extraHeader).toEqual([
      "allow",
      "GET, POST, PUT, PATCH, DELETE",
    ]);
  });

  test("the verifier gets the public URL with the raw target, never the Host header", async () => {
    const urls: string[] = [];
    const rig = ingestRig({
      ports: {
        verify: (request) => {
          urls.push(request.url);
          return { valid: true, reason: "ok", message: null };
        },
      },
    });
    await send(rig, { query: "b=%20&a", headers: [["host", "evil.example"]] });
    await send(rig, { query: "" });
    await send(rig, { query: null });
    expect(urls).toEqual(
      ["?b=%20&a", "?", ""].map((rest) => `https://relay.example/in/${TOKEN}${rest}`),
    );
  });

  test("credentials do not reach the log, and the verifier still sees them", async () => {
    let seen = "";
    const rig = ingestRig({
      ports: {
        verify: (request) => {
          seen = request.headers.map(([, value]) => value).join();
          return refusal;
        },
      },
    });
    await send(rig, {
      headers: [
        ["host", "x"],
        ["authorization", "Bearer s3cret"],
        ["cookie", "k=s3cret"],
      ],
    });
    expect(seen).toContain("s3cret");
    expect(Buffer.from(rig.log.records[0]?.value ?? []).includes("s3cret")).toBe(false);
  });

  test("behind a trusted proxy the source is the last address that a proxy saw itself", async () => {
    const rig = ingestRig({ options: { trustedProxies: ["192.0.2.0/24"] } });
    await send(rig, {
      headers: [
        ["host", "x"],
        ["x-forwarded-for", "6.6.6.6, 203.0.113.9, 192.0.2.1"],
      ],
    });
    await send(rig, { headers: [["host", "x"]] });
    await send(rig, { remoteAddress: "198.51.100.1", headers: [["x-forwarded-for", "6.6.6.6"]] });
    await send(rig, { headers: [["x-forwarded-for", "nobody"]] });
    expect(rig.log.events.map((event) => event.sourceIp)).toEqual([
      "203.0.113.9",
      "192.0.2.7",
      "198.51.100.1",
      "192.0.2.7",
    ]);
  });

  /** Returns the received times of events that come at these wall-clock times. */
  async function receivedAt(wallMs: readonly number[]): Promise<readonly number[]> {
    let nowMs = 0;
    const clock = { now: () => nowMs, monotonic: () => 0, schedule: () => () => {} };
    const rig = ingestRig({ ports: { clock } });
    for (const timeMs of wallMs) {
      nowMs = timeMs;
      await send(rig);
    }
    return rig.log.events.map((event) => event.receivedAtMs);
  }

  test("received times do not run backwards when the wall clock makes a small step back", async () => {
    expect(await receivedAt([5_000, 4_000, 4_999, 6_000])).toEqual([5_000, 5_000, 5_000, 6_000]);
  });

  test("received times follow a wall clock that was hours ahead and is set right: all events carried the last wrong one until then", async () => {
    const wrongMs = 7_200_000;
    expect(await receivedAt([wrongMs, 3_000, 3_500, 3_400, 4_000])).toEqual([
      wrongMs,
      3_000,
      3_500,
      3_500,
      4_000,
    ]);
  });

  test("timestamps are compared with the wall clock, also after it was set back", async () => {
    const seen: number[] = [];
    let wallMs = 5_000;
    const rig = ingestRig({
      ports: {
        clock: { now: () => wallMs, monotonic: () => 0, schedule: () => () => {} },
        verify: ({ nowMs }) => {
          seen.push(nowMs);
          return { valid: true, reason: "ok", message: null };
        },
      },
    });
    await send(rig);
    wallMs = 4_000;
    await send(rig);
    expect(seen).toEqual([5_000, 4_000]);
  });
});

describe("when something does not work", () => {
  test.each(["log_full", "log_unavailable", "log_outcome_unknown"] as const)(
    "%s answers 503 with Retry-After, for a rejected event too",
    async (code) => {
      const rig = ingestRig();
      rig.log.failWith = new LogError(code, "no");
      const answer = await send(rig);
      expect(statusOf(answer)).toBe(503);
      expect(answer.extraHeader).toEqual(["retry-after", "1"]);
      expect(answer.eventId).toBeNull();
      const rejecting = ingestRig({ ports: { verify: () => refusal } });
      rejecting.log.failWith = new LogError(code, "no");
      expect(statusOf(await send(rejecting))).toBe(503);
      expect(rig.metrics.appends).toEqual([code]);
      expect(rig.ingest.inFlight).toEqual({ requests: 0, bytes: 0 });
    },
  );

  test("regression: of one append those are answered 200 that are durable: a partition that took nothing cost all others their answers", async () => {
    const rig = ingestRig();
    rig.log.failWith = new LogError("log_unavailable", "refused", {
      appended: [{ partition: 1, offset: 0 }, null, { partition: 1, offset: 1 }],
    });
    const answers = await Promise.all([send(rig), send(rig), send(rig)]);
    expect(rig.log.appends).toEqual([3]);
    expect(answers.map(statusOf)).toEqual([200, 503, 200]);
    expect(rig.metrics.appends).toEqual(["log_unavailable"]);
    expect(rig.logged.map(({ fields }) => fields)).toEqual([
      { code: "log_unavailable", err: rig.log.failWith, events: 1 },
    ]);
    expect(rig.ingest.inFlight).toEqual({ requests: 0, bytes: 0 });
  });

  test("a log that throws at once is answered 503 as well", async () => {
    const rig = ingestRig({
      ports: {
        append: () => {
          throw new Error("broken");
        },
      },
    });
    expect(statusOf(await send(rig))).toBe(503);
    expect(rig.metrics.appends).toEqual(["log_failed"]);
  });

  test("a log that fails is told of with its error, once for many events: only a counter knew of it", async () => {
    let nowMs = 0;
    const clock = { ...realClock, monotonic: () => nowMs };
    const rig = ingestRig({ ports: { clock } });
    rig.log.failWith = new LogError("log_unavailable", "broker 2 is gone");
    for (let n = 0; n < 10; n += 1) expect(statusOf(await send(rig))).toBe(503);
    nowMs = 6_000;
    await send(rig);
    expect(rig.logged).toEqual(
      [1, 10].map((events) => ({
        level: "error",
        fields: { code: "log_unavailable", err: rig.log.failWith, events },
        message: "log.append_failed",
      })),
    );
  });

  test("regression: an outage of the log has an end that is told once, with the events that no line told of: they were added to the next outage's", async () => {
    let nowMs = 0;
    const clock = { ...realClock, monotonic: () => nowMs };
    const rig = ingestRig({ ports: { clock } });
    rig.log.failWith = new LogError("log_unavailable", "broker 2 is gone");
    for (let n = 0; n < 3; n += 1) await send(rig);
    nowMs = 2_000;
    rig.log.failWith = null;
    for (nowMs of [2_000, 6_999, 7_000, 20_000]) await send(rig);
    expect(rig.logged.map(({ message }) => message)).toEqual([
      "log.append_failed",
      "log.append_restored",
    ]);
    expect(rig.logged[1]).toMatchObject({ level: "info", fields: { afterMs: 2_000, events: 2 } });
    rig.log.failWith = new LogError("log_unavailable", "broker 2 is gone");
    await send(rig);
    expect(rig.logged[2]).toMatchObject({ fields: { events: 1 } });
  });

  test("a log of which some partitions are away is not told of as back between their failures", async () => {
    let nowMs = 0;
    const clock = { ...realClock, monotonic: () => nowMs };
    const rig = ingestRig({ ports: { clock } });
    for (let n = 0; n < 20; n += 1) {
      nowMs = n * 1_000;
      rig.log.failWith = n % 4 === 0 ? new LogError("log_unavailable", "broker 2 is gone") : null;
      await send(rig);
    }
    expect(new Set(rig.logged.map(({ message }) => message))).toEqual(
      new Set(["log.append_failed"]),
    );
  });

  test("an append that hangs is answered 503 at the deadline and holds its room until the log is done", async () => {
    const rig = ingestRig({ options: { deadlineMs: 30 } });
    rig.log.hold();
    expect(statusOf(await send(rig))).toBe(503);
    expect(rig.ingest.inFlight).toEqual({ requests: 1, bytes: BODY.length });
    rig.log.letGo();
    await until(() => rig.ingest.inFlight.requests === 0);
    expect(rig.metrics.outcomes).toEqual(["unavailable"]);
    expect(rig.ingest.inFlight.bytes).toBe(0);
  });

  test("no deadline is left behind by a request that was answered", async () => {
    let pending = 0;
    const schedule = (): (() => void) => {
      pending += 1;
      return () => (pending -= 1);
    };
    const rig = ingestRig({
      ports: {
        clock: { ...realClock, schedule },
        verify: () => Promise.resolve(ACCEPTED),
      },
    });
    expect(statusOf(await send(rig))).toBe(200);
    rig.log.failWith = new LogError("log_full", "no");
    expect(statusOf(await send(rig))).toBe(503);
    expect(pending).toBe(0);
  });

  test("how long an append and an answer took is counted in seconds", async () => {
    let nowMs = 1_000;
    const counted: number[] = [];
    const rig = ingestRig({
      ports: {
        clock: { ...realClock, monotonic: () => nowMs },
        append: (records) => {
          nowMs += 500;
          return rig.log.append(records);
        },
        metrics: {
          refused: () => undefined,
          appended: (seconds) => counted.push(seconds),
          answered: (_outcome, seconds) => counted.push(seconds),
        },
      },
    });
    await send(rig);
    expect(counted).toEqual([0.5, 0.5]);
  });

  test("a cold configuration cache without its store is 503, and so is one that breaks", async () => {
    const cold = ingestRig({ ports: { endpointByToken: () => ({ kind: "unavailable" }) } });
    expect(statusOf(await send(cold))).toBe(503);
    const broken = ingestRig({ ports: { endpointByToken: () => Promise.reject(new Error("x")) } });
    expect(statusOf(await send(broken))).toBe(503);
    expect(broken.metrics.causes).toEqual(["configuration"]);
  });

  test("a looked-up endpoint is found through a promise too", async () => {
    const value = endpointConfig();
    const rig = ingestRig({
      ports: { endpointByToken: () => Promise.resolve({ kind: "found", value }) },
    });
    expect(statusOf(await send(rig))).toBe(200);
  });

  test.each([
    ["at once", true],
    ["later", false],
  ])(
    "a body that is lent is recorded and verified as it came, with a verdict that comes %s",
    async (_, isAtOnce) => {
      const seen: string[] = [];
      const see = (body: Uint8Array): VerificationResult => {
        seen.push(Buffer.from(body).toString());
        return ACCEPTED;
      };
      const rig = ingestRig({
        ports: {
          isInline: () => isAtOnce,
          verify: ({ body }) => (isAtOnce ? see(body) : Promise.resolve().then(() => see(body))),
        },
      });
      const answers: Answer[] = [];
      const reception = await rig.ingest.handle(headOf(), (answer) => answers.push(answer));
      const lent = Uint8Array.from(BODY);
      reception?.hold(lent.length);
      reception?.complete(lent, true);
      lent.fill(0);
      await until(() => answers.length > 0);
      expect(answers.map(statusOf)).toEqual([200]);
      const recorded = rig.log.events.map(({ body }) => Buffer.from(body).toString());
      expect([seen, recorded]).toEqual([[BODY.toString()], [BODY.toString()]]);
    },
  );

  test("records stay as they are until the log has confirmed them, and after an append that failed: it may still be on its way", async () => {
    const given: NewRecord[] = [];
    let confirm: () => void = () => undefined;
    const confirmed = new Promise<void>((resolve) => {
      confirm = resolve;
    });
    const rig = ingestRig({
      ports: {
        append: async (records) => {
          const isFirst = given.length === 0;
          const isSecond = given.length === 1;
          given.push(...records);
          if (isFirst) throw new LogError("log_outcome_unknown", "no answer");
          if (isSecond) await confirmed;
          return rig.log.append(records);
        },
      },
    });
    const large = (mark: number): Buffer => Buffer.alloc(100_000, mark);
    expect(statusOf(await send(rig, {}, large(1)))).toBe(503);
    const held = send(rig, {}, large(2));
    await until(() => given.length === 2);
    // More than the memory that records share holds, several times over.
    const sendMany = async (mark: number): Promise<void> => {
      for (let count = 0; count < 40; count += 1) await send(rig, {}, large(mark));
    };
    await sendMany(3);
    confirm();
    expect(statusOf(await held)).toBe(200);
    await sendMany(4);
    const bodyOfFailed = decodeEvent(given[0]!.value).body;
    expect(large(1).equals(bodyOfFailed)).toBe(true);
    const marks = Array.from({ length: 81 }, (_, index) => (index < 40 ? 3 : index === 40 ? 2 : 4));
    expect(rig.log.events.map(({ body }) => body.every((byte) => byte === body[0]))).toEqual(
      marks.map(() => true),
    );
    expect(rig.log.events.map(({ body }) => body[0])).toEqual(marks);
    expect(new Set(given.map(({ value }) => value.buffer)).size).toBeLessThan(8);
  });

  test("a verdict from the pool decides as well; a verifier that is unavailable, throws or rejects is 503", async () => {
    const pooled = ingestRig({ ports: { verify: () => Promise.resolve(refusal) } });
    expect(statusOf(await send(pooled))).toBe(401);
    const failures = [
      () => "unavailable" as const,
      () => Promise.resolve("unavailable" as const),
      () => Promise.reject(new Error("x")),
      () => {
        throw new Error("x");
      },
    ];
    for (const verify of failures) {
      const rig = ingestRig({ ports: { verify } });
      expect(statusOf(await send(rig))).toBe(503);
      expect(rig.metrics.causes).toEqual(["verification"]);
      expect(rig.logged.map(({ message }) => message)).toEqual(
        failures.indexOf(verify) < 2 ? [] : ["verify.failed"],
      );
      expect(rig.log.records).toHaveLength(0);
      expect(rig.ingest.inFlight).toEqual({ requests: 0, bytes: 0 });
    }
  });

  test("a verifier that hangs is 503 at the deadline; its late verdict changes nothing", async () => {
    let decide: (result: VerificationResult) => void = () => {};
    const rig = ingestRig({
      options: { deadlineMs: 30 },
      ports: {
        verify: (request) =>
          request.httpMethod === "PUT"
            ? refusal
            : new Promise((resolve) => {
                decide = resolve;
              }),
      },
    });
    expect(statusOf(await send(rig))).toBe(503);
    decide({ valid: true, reason: "ok", message: null });
    // What the late verdict would append goes with this one, or before it.
    expect(statusOf(await send(rig, { method: "PUT" }))).toBe(401);
    expect(rig.log.events.map(({ method }) => method)).toEqual(["PUT"]);
    expect(rig.ingest.inFlight).toEqual({ requests: 0, bytes: 0 });
  });

  test("an event that cannot be encoded is 503, logged, and gives its room back", async () => {
    const rig = ingestRig({
      ports: {
        newEventId: () => {
          throw new Error("no randomness");
        },
      },
    });
    expect(statusOf(await send(rig))).toBe(503);
    expect(rig.metrics.causes).toEqual(["internal"]);
    expect(rig.logged.some((line) => line.level === "error")).toBe(true);
    expect(rig.ingest.inFlight).toEqual({ requests: 0, bytes: 0 });
  });

  test("a client that leaves before its body is complete leaves nothing behind", async () => {
    const rig = ingestRig();
    const answers: Answer[] = [];
    const reception = await rig.ingest.handle(headOf(), (answer) => answers.push(answer));
    reception?.hold(5);
    expect(rig.ingest.inFlight).toEqual({ requests: 1, bytes: 5 });
    reception?.abandon();
    expect(rig.ingest.inFlight).toEqual({ requests: 0, bytes: 0 });
    expect([answers.length, rig.log.records.length]).toEqual([0, 0]);
  });
});

describe("batching and admission", () => {
  test("requests of one turn of the event loop share one append", async () => {
    const rig = ingestRig();
    await Promise.all(Array.from({ length: 50 }, () => send(rig)));
    expect(rig.log.appends.length).toBeLessThan(5);
    expect(rig.log.records).toHaveLength(50);
    expect(new Set(rig.log.events.map((event) => event.id)).size).toBe(50);
    const appends = rig.log.appends.length;
    await send(rig);
    expect(rig.log.appends.slice(appends)).toEqual([1]);
    expect(rig.ingest.inFlight).toEqual({ requests: 0, bytes: 0 });
  });

  test("full of requests: 503 at once, and room again when they are answered", async () => {
    const rig = ingestRig({ options: { maxRequestsInFlight: 4 } });
    rig.log.hold();
    const first = [send(rig), send(rig)];
    await until(() => rig.ingest.inFlight.requests === 2);
    expect(statusOf(await send(rig))).toBe(503);
    expect(rig.metrics.causes).toEqual(["overloaded"]);
    rig.log.letGo();
    expect((await Promise.all(first)).map(statusOf)).toEqual([200, 200]);
    expect(statusOf(await send(rig))).toBe(200);
  });

  test("full of bytes: 503, and nothing stays held", async () => {
    const rig = ingestRig({ options: { maxBytesInFlight: 20 } });
    expect(statusOf(await send(rig, {}, Buffer.alloc(21)))).toBe(503);
    expect(rig.ingest.inFlight).toEqual({ requests: 0, bytes: 0 });
  });

  test("regression: full of long heads: 503, before the process is out of memory, and nothing stays held: only bodies were counted", async () => {
    const rig = ingestRig({ options: { maxBytesInFlight: 256 * 1_024 } });
    const headers = Array.from({ length: 90 }, (_, n) => [`x-${n}`, "v".repeat(230)] as const);
    const statuses: number[] = [];
    const receptions: Reception[] = [];
    for (let request = 0; request < 20; request += 1) {
      const answered = (answer: Answer) => void statuses.push(statusOf(answer));
      const reception = await rig.ingest.handle(headOf({ headers }), answered);
      if (reception !== null) receptions.push(reception);
    }
    expect(statuses.length).toBeGreaterThan(12);
    expect(new Set(statuses)).toEqual(new Set([503]));
    expect(receptions.length).toBe(20 - statuses.length);
    expect(rig.metrics.causes).toEqual(statuses.map(() => "overloaded"));
    rig.endpoints.set("other", endpointConfig({ id: "ep_other" }));
    expect(statusOf(await send(rig, { path: "/in/other" }))).toBe(200);
    for (const reception of receptions) reception.abandon();
    expect(rig.ingest.inFlight).toEqual({ requests: 0, bytes: 0 });
  });

  test("a long head takes nothing off the size that its body may have", async () => {
    const rig = ingestRig({ options: { maxPayloadBytes: 1_000 } });
    const headers = [["x-long", "v".repeat(16_000)]] as const;
    expect(statusOf(await send(rig, { headers, declaredBytes: 1_000 }, Buffer.alloc(1_000)))).toBe(
      200,
    );
    expect(statusOf(await send(rig, { headers, declaredBytes: null }, Buffer.alloc(1_001)))).toBe(
      413,
    );
    expect(rig.ingest.inFlight).toEqual({ requests: 0, bytes: 0 });
  });

  test("a body that comes in pieces holds what has come, and gives back all of it", async () => {
    const rig = ingestRig();
    const answers: Answer[] = [];
    const head = headOf({ declaredBytes: 12 });
    const reception = await rig.ingest.handle(head, (answer) => answers.push(answer));
    for (const bytes of [3, 6, 9, 12]) {
      reception?.hold(3);
      expect(rig.ingest.inFlight).toEqual({ requests: 1, bytes });
    }
    reception?.complete(Buffer.alloc(12));
    await until(() => answers.length > 0);
    expect(rig.ingest.inFlight).toEqual({ requests: 0, bytes: 0 });
  });

  test("one endpoint's backlog leaves room for another's requests", async () => {
    const rig = ingestRig({ options: { maxRequestsInFlight: 10 } });
    rig.endpoints.set("other", endpointConfig({ id: "ep_other" }));
    rig.log.hold();
    const busy = Array.from({ length: 10 }, () => send(rig));
    await until(() => rig.metrics.causes.length === 5);
    const other = send(rig, { path: "/in/other" });
    await until(() => rig.ingest.inFlight.requests === 6);
    rig.log.letGo();
    expect(statusOf(await other)).toBe(200);
    expect((await Promise.all(busy)).map(statusOf).filter((status) => status === 200)).toHaveLength(
      5,
    );
  });
});

test.each([
  ["at once", ACCEPTED],
  ["by a thread", Promise.resolve(ACCEPTED)],
])(
  "regression: an error in recording what was verified %s is 503, logged, and frees its room: behind a thread it ended the process",
  async (_name, verdict) => {
    const rig = ingestRig({
      ports: {
        verify: () => verdict,
        newEventId: () => {
          throw new RangeError("no id");
        },
      },
    });
    const answer = await send(rig);
    expect(statusOf(answer)).toBe(503);
    expect(rig.metrics.causes).toEqual(["internal"]);
    expect(rig.logged.map(({ message }) => message)).toEqual(["ingest.webhook_not_recorded"]);
    expect(rig.ingest.inFlight).toEqual({ requests: 0, bytes: 0 });
  },
);

test("regression: an error in recording a refusal frees its room: each of those kept its place at the endpoint for ever", async () => {
  const rig = ingestRig({
    options: { rateLimitPerSecond: 1, maxPayloadBytes: 100 },
    ports: {
      newEventId: () => {
        throw new RangeError("no id");
      },
    },
  });
  const answers: Answer[] = [];
  // The first is too large, the second is also beyond one a second.
  for (let request = 0; request < 2; request += 1)
    await rig.ingest.handle(headOf({ declaredBytes: 1_000 }), (answer) => answers.push(answer));
  await until(() => answers.length === 2);
  expect(answers.map(statusOf)).toEqual([503, 503]);
  expect(rig.metrics.causes).toEqual(["internal", "internal"]);
  expect(rig.ingest.inFlight).toEqual({ requests: 0, bytes: 0 });
});

describe("regression: an endpoint that changes while a body is on its way, for minutes over a slow line: the webhook was judged by what it had been at first", () => {
  /** Begins a request, changes its endpoint after that time, and then ends the body. */
  async function change(
    afterMs: number,
    ports: Partial<IngestPorts>,
    alter: (rig: IngestRig) => void,
  ): Promise<{ readonly rig: IngestRig; readonly answer: Answer | undefined }> {
    let nowMs = 0;
    const rig = ingestRig({ ports: { clock: { ...realClock, monotonic: () => nowMs }, ...ports } });
    const answers: Answer[] = [];
    const reception = await rig.ingest.handle(headOf(), (answer) => answers.push(answer));
    nowMs = afterMs;
    alter(rig);
    const lent = Uint8Array.from(BODY);
    reception?.hold(lent.length);
    reception?.complete(lent, true);
    lent.fill(0);
    await until(() => answers.length > 0);
    expect(rig.ingest.inFlight).toEqual({ requests: 0, bytes: 0 });
    return { rig, answer: answers[0] };
  }

  /** The endpoints of a rig as a port that answers at once, or later. */
  const lookups = [
    ["at once", false],
    ["later", true],
  ] as const;

  function endpointsOf(isLater: boolean) {
    const endpoints = new Map([[TOKEN, endpointConfig({ secret: "old" })]]);
    const endpointByToken: IngestPorts["endpointByToken"] = (token) => {
      const value = endpoints.get(token);
      const found = value === undefined ? MISSING : ({ kind: "found", value } as const);
      return isLater ? Promise.resolve(found) : found;
    };
    return { endpoints, endpointByToken };
  }

  test.each(lookups)(
    "paused, it answers 409 and records that (looked up %s)",
    async (_, isLater) => {
      const { endpoints, endpointByToken } = endpointsOf(isLater);
      const { rig, answer } = await change(60_000, { endpointByToken }, () =>
        endpoints.set(TOKEN, endpointConfig({ status: "paused" })),
      );
      expect(answer?.status).toBe("409 Conflict");
      expect(rig.log.events).toMatchObject([{ reason: "endpoint_paused" }]);
      expect(Buffer.from(rig.log.events[0]?.body ?? [])).toEqual(BODY);
    },
  );

  test.each(lookups)("deleted, it is 404 and not recorded (looked up %s)", async (_, isLater) => {
    const { endpoints, endpointByToken } = endpointsOf(isLater);
    const { rig, answer } = await change(60_000, { endpointByToken }, () =>
      endpoints.delete(TOKEN),
    );
    expect(answer?.status).toBe("404 Not Found");
    expect(rig.log.records).toEqual([]);
    expect(rig.metrics.outcomes).toEqual(["not_found"]);
  });

  test.each([
    ["after it was on its way for long, by the new one", 60_000, "new"],
    ["in time, by the one there was", 500, "old"],
  ])("with its secret rotated, it is verified %s", async (_, afterMs, expected) => {
    const { endpoints, endpointByToken } = endpointsOf(false);
    const secrets: unknown[] = [];
    const verify: IngestPorts["verify"] = ({ secret }) => {
      secrets.push(secret);
      return ACCEPTED;
    };
    await change(afterMs, { endpointByToken, verify }, () =>
      endpoints.set(TOKEN, endpointConfig({ secret: "new" })),
    );
    expect(secrets).toEqual([expected]);
  });

  test.each([
    ["cannot be asked", () => UNAVAILABLE],
    ["breaks", () => Promise.reject(new Error("x"))],
  ])("its webhook is taken as before when the configuration %s", async (_, answerLater) => {
    let asked = 0;
    const endpointByToken: IngestPorts["endpointByToken"] = () =>
      (asked += 1) === 1 ? { kind: "found", value: endpointConfig() } : answerLater();
    const { rig, answer } = await change(60_000, { endpointByToken }, () => undefined);
    expect([asked, answer?.status]).toEqual([2, "200 OK"]);
    expect(Buffer.from(rig.log.events[0]?.body ?? [])).toEqual(BODY);
  });
});
