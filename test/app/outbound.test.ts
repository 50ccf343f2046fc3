import type { ServerResponse } from "node:http";
import { expect, it } from "vitest";
import { openSender } from "../../src/app/outbound.ts";
import { startReceiver } from "../support/undici-receivers.ts";

it("with a concurrency above 64 no try waits for a connection until it times out", async () => {
  const tries = 200;
  const waiting: ServerResponse[] = [];
  await using receiver = await startReceiver((req, res) => {
    req.resume();
    waiting.push(res);
    if (waiting.length === tries) for (const each of waiting) each.end("ok");
  });
  await using sender = openSender({
    allowPrivateReceivers: ["127.0.0.0/8"],
    deliveryTimeoutMs: 5_000,
    deliveryConcurrency: tries,
  });
  const request = { url: receiver.url, headers: [], body: Buffer.from("x") };
  const signal = new AbortController().signal;
  const replies = await Promise.all(
    Array.from({ length: tries }, () => sender.send(request, signal)),
  );
  expect(replies.filter(({ kind }) => kind === "response")).toHaveLength(tries);
});
