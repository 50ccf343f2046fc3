import { connect } from "node:net";
import { describe, expect, test } from "vitest";
import { TOKEN, dripBehind, exchangeRaw, isWholeAnswer, serverRig } from "../../support/ingest.ts";
import { until } from "../../support/wait-for.ts";

/** uWebSockets.js closes a connection without a word 8 s after it has waited, at the earliest. */
const DEADLINE_MS = 15_000;
const LINE = `POST /in/${TOKEN} HTTP/1.1`;

describe("heads that never come", () => {
  test.concurrent.each([
    ["a folded line", `${LINE}\r\nHost: x\r\nX: a\r\n b\r\n\r\n`],
    ["a line without a colon", `${LINE}\r\nHost: x\r\nX\r\n\r\n`],
    ["a blank before the colon", `${LINE}\r\nHost: x\r\nX : a\r\n\r\n`],
    ["a control character", `${LINE}\r\nHost: x\r\nX: a\u0001b\r\n\r\n`],
    ["a name with brackets", `${LINE}\r\nHost: x\r\nX(y): a\r\n\r\n`],
    ["an empty line ahead", `\r\n${LINE}\r\nHost: x\r\nContent-Length: 0\r\n\r\n`],
    ["half of a head", `${LINE}\r\nHost: x\r\nX: a`],
    ["nothing", ""],
  ])("%s is answered 400 before the connection is closed, and counted", async (_, raw) => {
    await using rig = await serverRig();
    const answer = await exchangeRaw(rig.server.port, [raw], { deadlineMs: DEADLINE_MS });
    expect(answer).toMatchObject({ status: 400, closed: true });
    const body = answer.text.slice(answer.text.indexOf("\r\n\r\n") + 4);
    expect(JSON.parse(body)).toMatchObject({ error: { code: "malformed_request" } });
    expect(rig.serverMetrics.malformedReasons).toEqual(["no readable head in time"]);
    expect(rig.log.events).toHaveLength(0);
    expect(rig.serverMetrics.open).toBe(0);
  });

  test.concurrent("a connection is not told once a request has come on it, nor when it was closed", async () => {
    await using rig = await serverRig();
    const { port } = rig.server;
    const slow = exchangeRaw(port, [`${LINE}\r\nHost: x\r\n`], { deadlineMs: DEADLINE_MS });
    const gone = connect({ port, host: "127.0.0.1" });
    await until(() => rig.serverMetrics.open === 2, "both are open");
    gone.resetAndDestroy();
    await until(() => rig.serverMetrics.open === 1, "one is gone");
    const kept = await exchangeRaw(port, [`${LINE}\r\nHost: x\r\nContent-Length: 0\r\n\r\n`], {
      deadlineMs: DEADLINE_MS,
    });
    expect(kept.text.match(/^HTTP/gm)).toHaveLength(1);
    expect(kept).toMatchObject({ status: 200, closed: true });
    // It may have been the one that the request came on.
    expect(await slow).toMatchObject({ status: 0, closed: true });
    expect(rig.serverMetrics.malformedReasons).toEqual([]);
  });

  test.concurrent("a server that stops forgets them", async () => {
    const rig = await serverRig();
    const open = connect({ port: rig.server.port, host: "127.0.0.1" });
    open.on("error", () => undefined);
    await until(() => rig.serverMetrics.open === 1, "it is open");
    await rig.server.stop(0);
    await new Promise((wake) => setTimeout(wake, 8_000));
    open.destroy();
    expect(rig.serverMetrics.malformedReasons).toEqual([]);
  });

  // The server's handle to a connection is freed with it: used afterwards, it would end the process.
  test.concurrent("hundreds of connections in every state, which vanish at any time, end nothing", async () => {
    await using rig = await serverRig();
    const { port } = rig.server;
    const whole = `${LINE}\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi`;
    const starts = [
      "",
      `${LINE}\r\nHost: x\r\n`,
      `${LINE}\r\nHost: x\r\nX: a\r\n b\r\n\r\n`,
      "nothing of HTTP\r\n\r\n",
      "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
      whole,
      whole.slice(0, -1),
      whole + whole,
    ];
    const clients = Array.from({ length: 640 }, async (_, number) => {
      // Spread over addresses, so that requests let go of some connections and not of others.
      const localAddress = `127.0.0.${1 + (number % 40)}`;
      await new Promise((wake) => setTimeout(wake, number * 5));
      const client = connect({ port, host: "127.0.0.1", localAddress });
      client.on("error", () => undefined).resume();
      client.on("connect", () => client.write(starts[number % starts.length]!));
      const leave = [() => client.end(), () => client.destroy(), () => client.resetAndDestroy()];
      await new Promise((wake) => setTimeout(wake, (number % 11) * 900));
      leave[number % 3]!();
    });
    await Promise.all(clients);
    await until(() => rig.serverMetrics.open === 0, "all are closed", 30_000);
    expect(rig.serverMetrics.malformedReasons).toContain("no readable head in time");
    const answer = await exchangeRaw(port, [whole], { until: isWholeAnswer });
    expect(answer.status).toBe(200);
  });
});

describe("bodies that never come", () => {
  test.concurrent.each([
    [
      "that is too slow",
      408,
      "request_timeout",
      dripBehind(`${LINE}\r\nHost: x\r\nContent-Length: 100000\r\n\r\n`),
    ],
    [
      "of which nothing comes",
      408,
      "request_timeout",
      [`${LINE}\r\nHost: x\r\nContent-Length: 5\r\n\r\n`],
    ],
    [
      "of which chunks are missing",
      400,
      "malformed_request",
      [`${LINE}\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel`],
    ],
    [
      "with an extension of a chunk",
      400,
      "malformed_request",
      [`${LINE}\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\n\r\n`],
    ],
  ] as const)("a body %s is answered %i, and not recorded", async (_, status, code, pieces) => {
    await using rig = await serverRig();
    const answer = await exchangeRaw(rig.server.port, pieces, {
      deadlineMs: DEADLINE_MS,
      pauseMs: 2_000,
    });
    expect(answer).toMatchObject({ status, closed: true });
    expect(answer.text).toContain(`"code":"${code}"`);
    expect(rig.serverMetrics.malformedReasons).toEqual(["no whole body in time"]);
    expect(rig.serverMetrics.abortedRequests).toBe(0);
    expect(rig.log.events).toHaveLength(0);
    expect(rig.ingest.inFlight.requests).toBe(0);
  });

  test.concurrent("a body that comes steadily may take longer than the time for a step", async () => {
    await using rig = await serverRig();
    const step = "x".repeat(100 * 1_024);
    const pieces = [
      `${LINE}\r\nHost: x\r\nConnection: close\r\nContent-Length: ${6 * step.length}\r\n\r\n`,
      ...Array.from({ length: 6 }, () => step),
    ];
    const answer = await exchangeRaw(rig.server.port, pieces, {
      deadlineMs: 20_000,
      pauseMs: 1_900,
    });
    expect(answer).toMatchObject({ status: 200, closed: true });
    expect(rig.log.events[0]?.payloadSizeBytes).toBe(6 * step.length);
  });
});
