import { createServer, type IncomingMessage } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { collectGarbage } from "../support/collect-garbage.ts";
import { startChild } from "../support/child-process.ts";
import { makeDeliveryRig } from "../support/delivery-rig.ts";
import type { HostileReceivers, Trespasses } from "../support/hostile-receivers.ts";
import { waitFor } from "../support/wait-for.ts";

const DESTINATIONS = 2_000;
const ENDPOINTS = 8;
const EVENTS = 2;
const GOOD = 42;
const MAX_GROWN_BYTES = 50 * 1_048_576;
const HOSTILE = fileURLToPath(new URL("../support/hostile-receivers-child.ts", import.meta.url));

function deliveryOf({ headers }: IncomingMessage): string {
  return `${String(headers["x-relay-destination-id"])} ${String(headers["webhook-id"])}`;
}

/** Returns the memory the process cannot free, on and off the heap. */
function heldBytes(): number {
  collectGarbage();
  return process.memoryUsage().rss;
}

describe("receivers that misbehave", () => {
  // Runs first, while the process is small: earlier growth would hide the growth measured here.
  it("50 receivers, 8 of them hostile: no canary is reached, no byte meets bad TLS, memory stays", async () => {
    await using hostile = await startChild<HostileReceivers>(HOSTILE, [], ["--import", "tsx"]);
    const { good, bad, ca } = hostile.ready;
    let delivered = 0;
    await using rig = await makeDeliveryRig({
      timeoutMs: 5_000,
      bodyBytes: 2_000,
      ca,
      delivery: { retryBaseMs: 500 },
      onEnded: ({ status, destinationId }) => {
        if (status === "delivered" && destinationId.startsWith("dst_good")) delivered += 1;
      },
    });
    for (let index = 0; index < GOOD; index += 1)
      rig.configure(`dst_good${index}`, { receiverUrl: good });
    for (const [index, receiverUrl] of bad.entries())
      rig.configure(`dst_bad${index}`, { receiverUrl, retryMaxAttempts: 2, retryBackoff: "fixed" });
    await rig.ingest("ep_1", 20);
    await waitFor("warm lanes", () => delivered === GOOD * 20, 60_000);
    const beforeBytes = heldBytes();
    let maxBytes = 0;
    for (let round = 1; round <= 8; round += 1) {
      await rig.ingest("ep_1", 20);
      const wanted = GOOD * 20 * (round + 1);
      await waitFor(`round ${round} at the good ones`, () => delivered === wanted, 60_000);
      maxBytes = Math.max(maxBytes, heldBytes());
    }
    await waitFor("tries at all of the bad ones", () => (rig.ended.get("dead") ?? 0) >= 8, 90_000);
    hostile.process.send("report");
    const [seen] = (await once(hostile.process, "message")) as [Trespasses];
    const grownBytes = maxBytes - beforeBytes;
    console.log(
      `memory grew by ${Math.round(grownBytes / 1_048_576)} MB over ${delivered} deliveries; the endless receiver sent ${Math.round(seen.endlessBytes / 1_048_576)} MB`,
    );
    expect(seen.canaryConnections).toBe(0);
    expect(seen.badTlsRequests).toBe(0);
    expect(seen.badTlsConnections).toHaveLength(4);
    for (const connections of seen.badTlsConnections) expect(connections).toBeGreaterThan(0);
    expect(seen.endlessBytes).toBeGreaterThan(0);
    expect(grownBytes).toBeLessThan(MAX_GROWN_BYTES);
  }, 300_000);

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
    // Each receiver has its own address, as in the real world each has its own host.
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
      // Every other receiver still hangs: no delivery had to wait for a timeout.
      expect(hanging).toBeGreaterThanOrEqual(DESTINATIONS / 2);
      expect(rig.ended.get("timeout") ?? 0).toBe(0);
      expect(rig.warnings).toEqual([]);
    }
    server.closeAllConnections();
    server.close();
  }, 150_000);
});
