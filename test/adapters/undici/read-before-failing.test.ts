import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { expect, it } from "vitest";
import { parseCidrs } from "../../../src/domain/ip.ts";
import { makeHttpSender } from "../../../src/adapters/undici/http-sender.ts";

/** Answers as soon as a request begins, and closes with the rest of it unread. On a thread: in this one, answers are always read first. */
const REFUSING_RECEIVER = `
  const { createServer } = require("node:net");
  const { parentPort } = require("node:worker_threads");
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => {
      socket.pause();
      socket.write("HTTP/1.1 410 Gone\\r\\ncontent-length: 4\\r\\nconnection: close\\r\\n\\r\\ngone", () => socket.destroy());
    });
  });
  server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));`;

const TRIES = 30;
const MORE_THAN_BUFFERS_HOLD = 8 * 1024 * 1024;

it("regression: a refusal that comes before the request is out is read: it was lost with the write that failed, and a 410 was tried again", async () => {
  const receiver = new Worker(REFUSING_RECEIVER, { eval: true });
  const [port] = (await once(receiver, "message")) as [number];
  await using sender = makeHttpSender({
    timeoutMs: 15_000,
    allowPrivate: parseCidrs(["127.0.0.0/8"]),
  });
  const request = {
    url: `http://127.0.0.1:${port}/`,
    headers: [],
    body: Buffer.alloc(MORE_THAN_BUFFERS_HOLD),
  };
  const replies: unknown[] = [];
  for (let made = 0; made < TRIES; made += 1)
    replies.push(await sender.send(request, AbortSignal.timeout(60_000)));
  await receiver.terminate();
  const gone = expect.objectContaining({ kind: "response", status: 410, body: "gone" });
  expect(replies).toEqual(Array.from({ length: TRIES }, () => gone));
}, 120_000);
