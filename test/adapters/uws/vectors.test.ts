import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { TOKEN, dripBehind, exchangeRaw, serverRig, statusOf } from "../../support/ingest.ts";

/** Several times as long as the server keeps a connection on which nothing whole arrives. */
const DEADLINE_MS = 40_000;

interface Case {
  readonly name: string;
  readonly raw_base64?: string;
  readonly want: string;
  readonly recorded: boolean | null;
}

const CASES = (
  JSON.parse(
    readFileSync(new URL("../../vectors/http-ingest.json", import.meta.url), "utf8"),
  ) as Case[]
).filter((item) => item.raw_base64 !== undefined);

/** The ways to split the bytes of a case into packets. */
const WAYS: Readonly<Record<string, (raw: string) => readonly string[]>> = {
  whole: (raw) => [raw],
  "in pieces of 1 KB": (raw) => raw.match(/[^]{1,1024}/g) ?? [],
  "line by line": (raw) => raw.match(/[^\n]*\n|[^\n]+/g) ?? [],
};

/**
 * uWebSockets.js parses these internally and does not report them: chunk sizes up to `g`, any two bytes as chunk
 * terminator, and LF after a size pass. The promise is instead that the connection is closed, so that nothing can be
 * smuggled in behind.
 */
const CLOSED_BUT_NOT_REFUSED = new Set([
  'chunk size "g"',
  "chunk terminator XX",
  "chunk size ended by LF only",
]);

describe("HTTP on the wire", () => {
  const every = CASES.flatMap((item) => Object.keys(WAYS).map((way) => ({ item, way })));
  for (const { item, way } of every) {
    test.concurrent(`${item.name}, ${way}: ${item.want}`, async () => {
      await using rig = await serverRig();
      const raw = Buffer.from(item.raw_base64 ?? "", "base64")
        .toString("latin1")
        .replaceAll("/in/EP", `/in/${TOKEN}`);
      const packets = WAYS[way]!(raw).map((piece) => Buffer.from(piece, "latin1"));
      const answer = await exchangeRaw(rig.server.port, packets, {
        pauseMs: 2,
        deadlineMs: DEADLINE_MS,
        until: (text) => meets(item.want, { text, status: statusOf(text), closed: false }),
        // Long enough to see what should not come.
        lingerMs: 1_500 + 20 * packets.length,
      });
      const { events } = rig.log;
      if (CLOSED_BUT_NOT_REFUSED.has(item.name)) {
        expect(answer.closed).toBe(true);
        return;
      }
      expect(meets(item.want, answer), `${item.want} but ${JSON.stringify(answer)}`).toBe(true);
      if (item.recorded === true) expect(events).toHaveLength(1);
      if (item.recorded === false) expect(events).toHaveLength(0);
      if (answer.status === 413) {
        expect(events[0]?.bodyStored).toBe(false);
        expect(events[0]?.verificationError).toContain("payload too large");
        expect(events[0]?.payloadSizeBytes).toBe(
          Number(/content-length: (\d+)/i.exec(raw)?.[1] ?? -1),
        );
      }
    });
  }

  test("a slow and a silent connection are closed, though they send on", async () => {
    await using rig = await serverRig();
    const answers = await Promise.all([
      exchangeRaw(rig.server.port, [], { deadlineMs: DEADLINE_MS }),
      exchangeRaw(
        rig.server.port,
        dripBehind(`POST /in/${TOKEN}?slow HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n`),
        { deadlineMs: DEADLINE_MS, pauseMs: 2_000 },
      ),
      exchangeRaw(
        rig.server.port,
        dripBehind(`POST /in/${TOKEN}?head HTTP/1.1\r\nHost: x\r\nX: `),
        { deadlineMs: DEADLINE_MS, pauseMs: 2_000 },
      ),
    ]);
    expect(answers.map((answer) => answer.closed)).toEqual([true, true, true]);
    expect(rig.log.events.some((event) => event.query === "slow")).toBe(false);
  });
});

function meets(want: string, answer: { status: number; closed: boolean; text: string }): boolean {
  const { status, closed, text } = answer;
  const is2xx = status >= 200 && status < 300;
  switch (want) {
    case "2xx":
    case "2xx, the same whole or in pieces":
    case "2xx (100 first, or none)":
    case "2xx, stored as sent, never inflated":
      return is2xx;
    case "2xx, then close":
      return closed; // the answer may be lost, the record may not
    case "2xx or 400+close":
      return is2xx || (status === 400 && closed);
    case "400+close":
      return (status === 400 || status === 505) && closed;
    case "413+close at once":
      return status === 413 && closed;
    case "400 or 501, close":
    case "431 or 400, close":
      return [400, 431, 501].includes(status) && closed;
    case "414/431/400, or 2xx":
      return is2xx || [400, 414, 431].includes(status);
    case "405 without a body":
      return status === 405 && text.endsWith("\r\n\r\n");
    case "2xx or 4xx/505+close":
    case "4xx/505+close or 204":
      return is2xx || status === 505 || (status >= 400 && status < 500);
    default:
      return (
        want.startsWith("either three answers") && (closed || text.split("HTTP/1.1").length === 4)
      );
  }
}
