import { once } from "node:events";
import { Agent, request, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { TOKEN, endpointConfig, serverRig } from "../../support/ingest.ts";

const DEADLINE_MS = 5_000;

interface Seen {
  readonly status: number | undefined;
  readonly eventId: string | undefined;
  readonly body: string;
  /** Whether the sender was told to go on. */
  readonly continued: boolean;
}

/** Sends the head, and the body only once a 100 has come, as Apache's mod_proxy and Java's HttpClient do. */
async function sendOnceContinued(
  url: string,
  body: string | Buffer,
  options: { expectation: string; chunked?: boolean; agent?: Agent },
): Promise<Seen> {
  const { expectation, chunked = false, agent } = options;
  const framing = chunked
    ? { "transfer-encoding": "chunked" }
    : { "content-length": Buffer.byteLength(body) };
  const sent = request(url, {
    method: "POST",
    headers: { expect: expectation, ...framing },
    signal: AbortSignal.timeout(DEADLINE_MS),
    ...(agent === undefined ? {} : { agent }),
  });
  let continued = false;
  sent.on("continue", () => {
    continued = true;
    sent.end(body);
  });
  sent.flushHeaders();
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  const eventId = answer.headers["x-relay-event-id"];
  return {
    status: answer.statusCode,
    eventId: typeof eventId === "string" ? eventId : undefined,
    body: await text(answer),
    continued,
  };
}

test.each(["100-continue", "100-Continue", "100-CONTINUE"])(
  "regression: a sender that waits for its 100 after Expect: %s gets it: with capitals it waited until it was cut off",
  async (expectation) => {
    await using rig = await serverRig();
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    try {
      for (const body of ["a", "b".repeat(100_000), "c"]) {
        const seen = await sendOnceContinued(rig.url, body, { expectation, agent });
        const event = rig.log.events.at(-1);
        expect(seen).toMatchObject({ status: 200, eventId: event?.id, continued: true });
        expect(JSON.parse(seen.body)).toMatchObject({ data: { event_id: event?.id } });
        expect(Buffer.from(event?.body ?? []).toString()).toBe(body);
      }
      expect(rig.log.events).toHaveLength(3);
      expect(Object.values(agent.freeSockets).flat()).toHaveLength(1);
    } finally {
      agent.destroy();
    }
  },
);

test("a streamed body that waited for its 100 comes through", async () => {
  await using rig = await serverRig();
  const options = { expectation: "100-Continue", chunked: true };
  const seen = await sendOnceContinued(rig.url, "in chunks", options);
  expect(seen).toMatchObject({ status: 200, continued: true });
  expect(Buffer.from(rig.log.events[0]?.body ?? []).toString()).toBe("in chunks");
});

test("a refusal after the 100 has its own status and headers", async () => {
  await using rig = await serverRig({ options: { maxPayloadBytes: 1_000 } });
  const options = { expectation: "100-Continue", chunked: true };
  const tooLarge = await sendOnceContinued(rig.url, Buffer.alloc(2_000), options);
  expect(tooLarge).toMatchObject({
    status: 413,
    eventId: rig.log.events[0]?.id,
    continued: true,
  });
  expect(JSON.parse(tooLarge.body)).toMatchObject({ error: { code: "payload_too_large" } });
  rig.endpoints.set(TOKEN, endpointConfig({ status: "paused" }));
  const paused = await sendOnceContinued(rig.url, "a", { expectation: "100-Continue" });
  expect(paused).toMatchObject({ status: 409, eventId: rig.log.events[1]?.id, continued: true });
});

test("the 100 comes after an endpoint that had to be looked up is found, and not where there is none", async () => {
  const lookedUp = async (token: string) => {
    await new Promise((resolve) => setImmediate(resolve));
    return token === TOKEN
      ? ({ kind: "found", value: endpointConfig() } as const)
      : ({ kind: "missing" } as const);
  };
  await using rig = await serverRig({ ports: { endpointByToken: lookedUp } });
  const options = { expectation: "100-Continue" };
  expect(await sendOnceContinued(rig.url, "a", options)).toMatchObject({
    status: 200,
    continued: true,
  });
  expect(await sendOnceContinued(`${rig.url}x`, "a", options)).toMatchObject({
    status: 404,
    continued: false,
  });
});
