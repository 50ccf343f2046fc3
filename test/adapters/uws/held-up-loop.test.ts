import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { TOKEN, serverRig, statusOf } from "../../support/ingest.ts";
import { until } from "../../support/wait-for.ts";

/** Heads and bodies have seven seconds to arrive: the loop is held up from just before until just after. */
const HELD_UP_FROM_MS = 6_500;
const HELD_UP_MS = 1_000;
const HEAD = `POST /in/${TOKEN} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n`;
/** More than the kernel takes in for a server that does not read. */
const LARGE = "x".repeat(8_000_000);

function holdUpLoop(forMs: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, forMs);
}

test("regression: requests that arrive in time while the loop is held up are taken: they were answered 400 or 408", async () => {
  await using rig = await serverRig();
  const splitRequests = [
    ["", `${HEAD}Content-Length: 2\r\n\r\nhi`],
    [HEAD, "Content-Length: 2\r\n\r\nhi"],
    [`${HEAD}Content-Length: 5\r\n\r\nhe`, "llo"],
    [`${HEAD}Transfer-Encoding: chunked\r\n\r\n5\r\nhe`, "llo\r\n0\r\n\r\n"],
    [`${HEAD}Content-Length: ${LARGE.length + 1}\r\n\r\n.`, LARGE],
  ] as const;
  const clients = splitRequests.map(([start, rest], number) => {
    // A request lets go of the other connections of its address, which are then not answered.
    const localAddress = `127.0.0.${2 + number}`;
    const socket = connect({ port: rig.server.port, host: "127.0.0.1", localAddress });
    const client = { socket, rest, text: "", closed: once(socket, "close") };
    socket.on("data", (data) => (client.text += data.toString("latin1")));
    socket.write(start);
    return client;
  });
  await until(() => rig.serverMetrics.open === clients.length, "all are connected");
  await delay(HELD_UP_FROM_MS);
  for (const { socket, rest } of clients) socket.write(rest);
  holdUpLoop(HELD_UP_MS);
  await Promise.all(clients.map(({ closed }) => closed));
  expect(clients.map(({ text }) => statusOf(text))).toEqual([200, 200, 200, 200, 200]);
  expect(rig.log.events.map((event) => event.payloadSizeBytes).sort((a, b) => a - b)).toEqual([
    2,
    2,
    5,
    5,
    LARGE.length + 1,
  ]);
  expect(rig.serverMetrics.malformedReasons).toEqual([]);
});

test("regression: a sender that went on while the loop was held up gets its 404 when it has finished: it was cut off as silent", async () => {
  await using rig = await serverRig();
  const socket = connect({ port: rig.server.port, host: "127.0.0.1" });
  let text = "";
  const errors: Error[] = [];
  const closed = new Promise((resolve) => socket.once("close", resolve));
  socket.on("data", (data) => (text += data.toString("latin1")));
  socket.on("error", (error) => errors.push(error));
  socket.write(
    `POST /in/unknown HTTP/1.1\r\nHost: x\r\nContent-Length: ${LARGE.length + 1}\r\n\r\n.`,
  );
  await until(() => rig.metrics.outcomes.includes("not_found"), "the request is refused");
  await delay(200);
  socket.write(LARGE);
  // The server takes a sender to have finished once it was silent for 400 ms.
  holdUpLoop(500);
  await until(() => statusOf(text) !== 0, "the answer is here");
  socket.end();
  await closed;
  expect(statusOf(text)).toBe(404);
  expect(errors).toEqual([]);
});
