import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import { makeDeliveryRig } from "../support/delivery-rig.ts";
import { drips, floods, hangs, redirectsTo } from "../support/misbehaving-receivers.ts";
import { makeCertificates } from "../support/undici-certificates.ts";
import { startReceiver } from "../support/undici-receivers.ts";
import { waitFor } from "../support/wait-for.ts";

const DESTINATIONS = 2_000;
const ENDPOINTS = 8;
const EVENTS = 2;
/** The receivers are in this process too, and their gigabytes: what the delivery alone grows by is bench/bad-receivers.ts'. */
const MOST_GROWN_BYTES = 250 * 1_048_576;

function deliveryOf({ headers }: IncomingMessage): string {
  return `${String(headers["x-relay-destination-id"])} ${String(headers["webhook-id"])}`;
}

describe("receivers that misbehave", () => {
  it("1,000 of 2,000 that accept and never answer keep nothing from the others (I9)", async () => {
    const delivered = new Set<string>();
    let hanging = 0;
    const server = createServer((request, response) => {
      request.resume();
      if (request.url === "/hang") {
        hanging += 1;
        response.once("close", () => (hanging -= 1));
        return;
      }
      request.once("end", () => {
        delivered.add(deliveryOf(request));
        response.end("ok");
      });
    });
    // Each receiver has an address of its own, as each has a host of its own in the world.
    server.listen(0, "0.0.0.0", 4_096);
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    {
      await using rig = await makeDeliveryRig({ timeoutMs: 120_000 });
      for (let index = 0; index < DESTINATIONS; index += 1)
        rig.configure(`dst_${index}`, {
          endpointId: `ep_${index % ENDPOINTS}`,
          receiverUrl: `http://127.1.${index >> 8}.${index & 255}:${port}/${index % 16 < 8 ? "hang" : "hook"}`,
        });
      for (let endpoint = 0; endpoint < ENDPOINTS; endpoint += 1)
        await rig.ingest(`ep_${endpoint}`, EVENTS);
      const good = (DESTINATIONS / 2) * EVENTS;
      await waitFor("all deliveries to the good ones", () => delivered.size === good, 90_000, 50);
      // Every other one still hangs: nobody had to wait for a timeout.
      expect(hanging).toBeGreaterThanOrEqual(DESTINATIONS / 2);
      expect(rig.ended.get("timeout") ?? 0).toBe(0);
      expect(rig.warnings).toEqual([]);
    }
    server.closeAllConnections();
    server.close();
  }, 150_000);

  it("50 receivers, 8 of them hostile: no canary is reached, no byte meets bad TLS, memory stays", async () => {
    const certificates = makeCertificates();
    const delivered = new Set<string>();
    const badTlsBytes: string[] = [];
    let endless = 0;
    const good = (request: IncomingMessage, response: ServerResponse): void => {
      request.resume();
      request.once("end", () => {
        delivered.add(deliveryOf(request));
        response.end("ok");
      });
    };
    const untrusted = (request: IncomingMessage, response: ServerResponse): void => {
      badTlsBytes.push(request.url ?? "");
      response.end("ok");
    };
    await using canary = await startReceiver(untrusted);
    await using hung = await startReceiver(hangs);
    await using dripping = await startReceiver(drips);
    await using huge = await startReceiver(floods((sizeBytes) => (endless += sizeBytes)));
    await using redirects = await startReceiver(redirectsTo(canary.url));
    await using fine = await startReceiver(good, certificates.good);
    await using expired = await startReceiver(untrusted, certificates.expired);
    await using wrongName = await startReceiver(untrusted, certificates.wrongName);
    await using selfSigned = await startReceiver(untrusted, certificates.selfSigned);
    await using plain = await startReceiver(untrusted);
    await using rig = await makeDeliveryRig({
      timeoutMs: 5_000,
      bodyBytes: 2_000,
      ca: certificates.ca,
      delivery: { retryBaseMs: 500 },
    });
    const urls = [
      ...Array.from({ length: 42 }, () => fine.url),
      ...[hung, dripping, huge, redirects, expired, wrongName, selfSigned].map(({ url }) => url),
      // A server that speaks no TLS at all.
      plain.url.replace("http:", "https:"),
    ];
    for (const [index, receiverUrl] of urls.entries())
      rig.configure(`dst_${index}`, { receiverUrl, retryMaxAttempts: 2, retryBackoff: "fixed" });
    await rig.ingest("ep_1", 20);
    await waitFor("warm lanes", () => delivered.size === 42 * 20, 60_000);
    globalThis.gc?.();
    const beforeBytes = process.memoryUsage().rss;
    let mostBytes = 0;
    for (let round = 1; round <= 8; round += 1) {
      await rig.ingest("ep_1", 20);
      const wanted = 42 * 20 * (round + 1);
      await waitFor(`round ${round} at the good ones`, () => delivered.size === wanted, 60_000);
      mostBytes = Math.max(mostBytes, process.memoryUsage().rss);
    }
    await waitFor("tries at all of the bad ones", () => (rig.ended.get("dead") ?? 0) >= 8, 90_000);
    console.log(
      `memory grew by ${Math.round((mostBytes - beforeBytes) / 1_048_576)} MB over ${delivered.size} deliveries; the endless receiver sent ${Math.round(endless / 1_048_576)} MB`,
    );
    expect(canary.connections()).toBe(0);
    expect(badTlsBytes).toEqual([]);
    for (const server of [expired, wrongName, selfSigned, plain])
      expect(server.connections()).toBeGreaterThan(0);
    expect(mostBytes - beforeBytes).toBeLessThan(MOST_GROWN_BYTES);
  }, 300_000);
});
