import { createServer, connect, type AddressInfo } from "node:net";
import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { signDelivery } from "../../../src/signing/standard-webhooks.ts";
import { waitFor } from "../../support/wait-for.ts";
import { checkInvariants } from "./check-invariants.ts";
import { findRateBreaches } from "./check-rate.ts";
import type { Ledgers, ReceivedRequest, SentRequest } from "./ledgers.ts";
import { makeSeededRandom } from "./random.ts";
import { startTcpProxy } from "./tcp-proxy.ts";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=";
const ALLOWANCES = { duplicatesPerFault: 1, notDurableMs: 100, aftermathMs: 1_000 };

function sent(number: number, status: number | null, over: Partial<SentRequest> = {}): SentRequest {
  return {
    number,
    kind: status === 401 ? "forged" : "genuine",
    endpointId: "ep_1",
    body: `body ${number}`,
    sentMs: number,
    endedMs: number + 1,
    status,
    reason: String(status),
    eventId: status === null ? null : `evt_${number}`,
    ...over,
  };
}

function received(number: number, over: Partial<ReceivedRequest> = {}): ReceivedRequest {
  const body = over.body ?? `body ${number}`;
  const eventId = `evt_${number}`;
  return {
    path: "/ok",
    eventId,
    destinationId: "dst_1",
    tryNumber: 1,
    trigger: "event",
    timestamp: "1700000000",
    signature: signDelivery({
      id: eventId,
      timestampSeconds: 1_700_000_000,
      body: Buffer.from(body),
      secrets: [SECRET],
    }),
    body,
    notBeforeMs: 1_000 * number,
    arrivedMs: 1_000 * number,
    endedMs: 1_000 * number + 1,
    status: 200,
    ...over,
  };
}

/** Ledgers without violations: one event accepted, one forged. */
function wellLedgers(): Ledgers {
  return {
    sent: [sent(1, 200), sent(2, 401), sent(3, null)],
    received: [received(1)],
    faults: [],
    destinations: [
      { id: "dst_1", endpointId: "ep_1", secret: SECRET, mayEndDead: false, limit: null },
    ],
    dump: {
      events: [
        {
          id: "evt_1",
          endpointId: "ep_1",
          signatureValid: true,
          verificationError: null,
          summary: { total: 1, delivered: 1, failed: 0, pending: 0 },
        },
        {
          id: "evt_2",
          endpointId: "ep_1",
          signatureValid: false,
          verificationError: "the signature does not match",
          summary: null,
        },
      ],
      attempts: [
        {
          eventId: "evt_1",
          destinationId: "dst_1",
          run: "event",
          tryNumber: 1,
          status: "delivered",
          httpStatus: 200,
        },
      ],
      payloads: new Map([["evt_1", "body 1"]]),
    },
  };
}

function broken(change: (ledgers: Ledgers) => Partial<Ledgers>): readonly string[] {
  const well = wellLedgers();
  const found = checkInvariants({ ...well, ...change(well) }, ALLOWANCES);
  return [...new Set(found.map(({ invariant }) => invariant))];
}

describe("the checker of the invariants", () => {
  it("finds nothing where all is well", () => {
    expect(broken(() => ({}))).toEqual([]);
  });

  it("finds an accepted event that is not listed, or has other bytes (I1)", () => {
    expect(broken(({ dump }) => ({ dump: { ...dump, events: dump.events.slice(1) } }))).toContain(
      "I1",
    );
    const payloads = new Map([["evt_1", "body one"]]);
    expect(broken(({ dump }) => ({ dump: { ...dump, payloads } }))).toEqual(["I1"]);
  });

  it("finds a delivery that is pending or never came (I2)", () => {
    expect(broken(() => ({ received: [] }))).toContain("I2");
    const pending = { total: 1, delivered: 0, failed: 0, pending: 1 };
    const withPending = (ledgers: Ledgers) => ({
      dump: {
        ...ledgers.dump,
        events: ledgers.dump.events.map((event) => ({ ...event, summary: pending })),
      },
    });
    expect(broken(withPending)).toEqual(["I2"]);
  });

  it("finds a refusal that is not recorded, or without its reason (I3)", () => {
    expect(broken(({ dump }) => ({ dump: { ...dump, events: dump.events.slice(0, 1) } }))).toEqual([
      "I3",
    ]);
    expect(
      broken(({ dump }) => ({
        dump: {
          ...dump,
          events: dump.events.map((event) => ({ ...event, verificationError: null })),
        },
      })),
    ).toEqual(["I3"]);
  });

  it("finds more requests in a window than the limit allows, and doubts a receiver that stood still (I4)", () => {
    const limit = { max: 2, windowMs: 1_000 };
    const at = (notBeforeMs: number, arrivedMs: number) => ({ notBeforeMs, arrivedMs });
    expect(findRateBreaches([at(0, 0), at(500, 500), at(1_000, 1_000)], limit)).toEqual([]);
    expect(findRateBreaches([at(0, 0), at(500, 500), at(990, 990)], limit)).toHaveLength(1);
    expect(findRateBreaches([at(0, 200), at(500, 500), at(1_050, 1_050)], limit)).toEqual([]);
    const limited = (ledgers: Ledgers) => ({
      destinations: ledgers.destinations.map((one) => ({
        ...one,
        limit: { max: 1, windowMs: 10 },
      })),
      sent: [sent(1, 200), sent(2, 401)],
      received: [received(1), received(1, { arrivedMs: 1_005, tryNumber: 1 })],
    });
    expect(broken(limited)).toContain("I4");
  });

  it("finds other bytes and a wrong signature at the receiver (I6)", () => {
    expect(broken(() => ({ received: [received(1, { body: "body 9" })] }))).toContain("I6");
    expect(broken(() => ({ received: [received(1, { timestamp: "1700000001" })] }))).toEqual([
      "I6",
    ]);
  });

  it("finds a request without an attempt, an attempt without a request, and gaps (I7)", () => {
    const [attempt] = wellLedgers().dump.attempts;
    const attempts =
      (rows: readonly Partial<NonNullable<typeof attempt>>[]) => (ledgers: Ledgers) => ({
        dump: { ...ledgers.dump, attempts: rows.map((row) => ({ ...attempt!, ...row })) },
      });
    expect(broken(attempts([]))).toEqual(["I7"]);
    expect(broken(attempts([{ tryNumber: 2 }]))).toEqual(["I7"]);
    expect(broken(attempts([{}, { tryNumber: 2, status: "dead" }]))).toEqual(["I7"]);
    expect(broken(attempts([{}, { eventId: "evt_9" }]))).toEqual(["I7"]);
  });

  it("takes two rows of a try that was made twice, and none more (I7)", () => {
    const fault = { name: "freeze", startMs: 1_050, endMs: 2_900 };
    const again = received(1, { arrivedMs: 3_000, notBeforeMs: 3_000, endedMs: 3_001 });
    const rows =
      (count: number, requests: readonly ReceivedRequest[]) =>
      ({ dump }: Ledgers) => ({
        dump: { ...dump, attempts: Array.from({ length: count }, () => dump.attempts[0]!) },
        received: requests,
        faults: [fault],
      });
    expect(broken(rows(2, [received(1)]))).toEqual(["I7"]);
    expect(broken(rows(2, [received(1), again]))).toEqual([]);
    expect(broken(rows(3, [received(1), again]))).toEqual(["I7"]);
  });

  it("finds a duplicate that no fault explains, and more than one fault explains (I8)", () => {
    const again = received(1, { arrivedMs: 3_000, notBeforeMs: 3_000, endedMs: 3_001 });
    const third = received(1, { arrivedMs: 3_500, notBeforeMs: 3_500, endedMs: 3_501 });
    const fault = { name: "kill", startMs: 1_050, endMs: 2_900 };
    expect(broken(() => ({ received: [received(1), again] }))).toEqual(["I8"]);
    expect(broken(() => ({ received: [received(1), again], faults: [fault] }))).toEqual([]);
    expect(broken(() => ({ received: [received(1), again, third], faults: [fault] }))).toEqual([
      "I8",
    ]);
    const later = { ...fault, startMs: 1_200 };
    expect(broken(() => ({ received: [received(1), again], faults: [later] }))).toEqual(["I8"]);
  });
});

describe("the seeded choices", () => {
  it("are the same for the same seed, and others for another", () => {
    const draw = (seed: number) => {
      const random = makeSeededRandom(seed);
      return Array.from({ length: 20 }, () => random.pick([1, 2, 3, 4, 5, 6, 7, 8, 9]));
    };
    expect(draw(7)).toEqual(draw(7));
    expect(draw(7)).not.toEqual(draw(8));
  });
});

describe("the TCP proxy", () => {
  it("passes, stalls, loses and cuts connections, and passes again", async () => {
    const echo = createServer((socket) => {
      socket.on("error", () => undefined);
      socket.pipe(socket);
    });
    echo.listen(0, "127.0.0.1");
    await once(echo, "listening");
    const target = { host: "127.0.0.1", port: (echo.address() as AddressInfo).port };
    await using proxy = await startTcpProxy({ target, random: makeSeededRandom(1) });
    const open = () => {
      const socket = connect(proxy.port, "127.0.0.1");
      const seen = { text: "", closed: false };
      socket.on("data", (chunk: Buffer) => (seen.text += chunk.toString()));
      socket.on("error", () => undefined);
      socket.on("close", () => (seen.closed = true));
      return { socket, seen };
    };
    const first = open();
    first.socket.write("one ");
    await waitFor("the echo", () => first.seen.text === "one ");
    proxy.setMode("stall");
    first.socket.write("two ");
    const during = open();
    during.socket.write("new ");
    await waitFor("both connections", () => proxy.connections >= 4);
    expect(first.seen.text).toBe("one ");
    proxy.setMode("pass");
    await waitFor("what was held back", () => first.seen.text === "one two ");
    await waitFor("the new one's", () => during.seen.text === "new ");
    proxy.setMode("cut");
    await waitFor("the end of both", () => first.seen.closed && during.seen.closed);
    const refused = open();
    await waitFor("the refusal", () => refused.seen.closed);
    proxy.setMode("lossy");
    await waitFor("a lost connection", async () => {
      const one = open();
      for (let count = 0; count < 20; count += 1) one.socket.write(`${count} `);
      await waitFor("its end or its echo", () => one.seen.closed || one.seen.text.endsWith("19 "));
      const lost = one.seen.closed;
      one.socket.destroy();
      return lost;
    });
    proxy.setMode("pass");
    const last = open();
    last.socket.write("last");
    await waitFor("the last echo", () => last.seen.text === "last");
    for (const { socket } of [first, during, refused, last]) socket.destroy();
    echo.close();
  });
});
