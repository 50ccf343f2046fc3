import { connect } from "node:net";
import { expect, test } from "vitest";
import { TOKEN, exchangeRaw, isWholeAnswer, serverRig } from "../../support/ingest.ts";
import { until } from "../../support/wait-for.ts";

const BODY = '{"vanished":true}';

function requestOf(query: string, framing: "length" | "chunks"): string {
  const head = `POST /in/${TOKEN}?${query} HTTP/1.1\r\nHost: relay\r\n`;
  return framing === "length"
    ? `${head}Content-Length: ${BODY.length}\r\n\r\n${BODY}`
    : `${head}Transfer-Encoding: chunked\r\n\r\n${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`;
}

/** Writes the text and vanishes, with FIN or with a reset. */
function vanish(port: number, text: string, how: "end" | "destroy" | "reset"): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true });
    socket.on("error", () => undefined);
    socket.once("close", () => resolve());
    socket.resume();
    socket.once("connect", () => {
      const leave = (): void => {
        if (how === "end") socket.end();
        else if (how === "destroy") socket.destroy();
        else socket.resetAndDestroy();
      };
      if (text === "") leave();
      else socket.write(text, leave);
    });
  });
}

/** Waits until all clients are gone and nothing is held for them. */
async function allGone(rig: Awaited<ReturnType<typeof serverRig>>): Promise<void> {
  const areGone = (): boolean => rig.serverMetrics.open === 0 && rig.ingest.inFlight.requests === 0;
  await until(areGone, "all clients are gone", 20_000);
}

test.each([
  ["length", "end"],
  ["length", "destroy"],
  ["length", "reset"],
  ["chunks", "end"],
  ["chunks", "reset"],
] as const)(
  "clients of bodies in %s that vanish (%s) after each byte: only whole requests are recorded, nothing is held",
  async (framing, how) => {
    await using rig = await serverRig();
    const lengths = Array.from({ length: requestOf("cut=000", framing).length + 1 }, (_, n) => n);
    for (let from = 0; from < lengths.length; from += 20)
      await Promise.all(
        lengths.slice(from, from + 20).map((length) => {
          const text = requestOf(`cut=${String(length).padStart(3, "0")}`, framing);
          return vanish(rig.server.port, text.slice(0, length), how);
        }),
      );
    await allGone(rig);
    const whole = requestOf("cut=000", framing);
    // The end of a chunked body may be seen before its last CRLF has come.
    const least = framing === "length" ? whole.length : whole.length - 2;
    for (const event of rig.log.events) {
      expect(Number(event.query.slice("cut=".length))).toBeGreaterThanOrEqual(least);
      expect(Buffer.from(event.body).toString()).toBe(BODY);
    }
    // A whole request counts, even though its client is gone. (A reset may overtake it.)
    if (how === "end") expect(rig.log.events.length).toBeGreaterThan(0);
    const answer = await exchangeRaw(rig.server.port, [requestOf("last", "length")], {
      until: isWholeAnswer,
    });
    expect(answer.status).toBe(200);
    expect(rig.logged.filter(({ level }) => level === "error")).toEqual([]);
  },
);

test("clients that vanish while the log has not answered yet: recorded, nothing is held", async () => {
  await using rig = await serverRig();
  rig.log.hold();
  const clients = Array.from({ length: 50 }, (_, n) =>
    vanish(rig.server.port, requestOf(`n=${n}`, "length"), "end"),
  );
  await until(() => rig.ingest.inFlight.requests === 50);
  rig.log.letGo();
  await Promise.all(clients);
  await allGone(rig);
  expect(rig.log.events).toHaveLength(50);
});
