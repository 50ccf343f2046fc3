import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { expect, it } from "vitest";
import { collectGarbage } from "../support/collect-garbage.ts";
import { makeDeliveryRig } from "../support/delivery-rig.ts";
import { waitFor } from "../support/wait-for.ts";
import { isLong } from "./harness/is-long.ts";

const KEPT = isLong ? 70_000 : 2_000;
const DELETED = isLong ? 30_000 : 1_000;
/** Memory is printed, not asserted: growth differs too much between equal runs to prove a bound. */
const BODY_BYTES = isLong ? 4_096 : 65_536;
const PATIENCE_MS = isLong ? 900_000 : 90_000;

it(
  `${KEPT + DELETED} held tasks through pause, PATCH, resume and delete: each ends once`,
  async () => {
    const seen = new Map<string, number>();
    const server = createServer((request, response) => {
      request.resume();
      request.once("end", () => {
        const key = `${request.url} ${String(request.headers["webhook-id"])}`;
        seen.set(key, (seen.get(key) ?? 0) + 1);
        response.end("ok");
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    {
      await using rig = await makeDeliveryRig({
        timeoutMs: 15_000,
        bodyBytes: BODY_BYTES,
        partitions: 2,
      });
      for (const id of ["kept", "deleted"])
        rig.configure(id, {
          endpointId: `ep_${id}`,
          receiverUrl: `${url}/before`,
          status: "paused",
        });
      const beforeBytes = usedBytes();
      await rig.replay("ep_kept", "kept", KEPT);
      await rig.replay("ep_deleted", "deleted", DELETED);
      await waitFor("all are held", () => rig.held() === KEPT + DELETED, PATIENCE_MS);
      const heldBytes = usedBytes() - beforeBytes;

      rig.configure("kept", { receiverUrl: `${url}/after`, retryMaxAttempts: 1 });
      rig.configure("kept", { status: "active" });
      await waitFor("some go on", () => seen.size > KEPT / 10, PATIENCE_MS);
      rig.configure("kept", { status: "paused" });
      rig.remove("deleted");
      await waitFor("the deleted ones end", () => rig.ended.get("dead") === DELETED, PATIENCE_MS);
      rig.configure("kept", { status: "active" });
      await waitFor(
        "all others are delivered, durably",
        () => (rig.ended.get("delivered") ?? 0) >= KEPT,
        PATIENCE_MS,
      );
      await waitFor("nothing is held", () => rig.held() === 0, PATIENCE_MS);
      const laterBytes = usedBytes() - beforeBytes;
      console.log(
        `${KEPT + DELETED} held: ${megabytes(heldBytes)} MB more in memory, ${megabytes(laterBytes)} MB when all had ended`,
      );
      expect(seen.size).toBe(KEPT);
      expect([...seen].filter(([, times]) => times > 1)).toEqual([]);
      expect([...seen.keys()].every((key) => key.startsWith("/after "))).toBe(true);
      expect(rig.ended.get("delivered")).toBe(KEPT);
      expect(rig.ended.get("dead")).toBe(DELETED);
      // A full log is back-pressure: the append is retried.
      expect(rig.warnings.filter((line) => !line.includes("log_full"))).toEqual([]);
    }
    server.closeAllConnections();
    server.close();
  },
  5 * PATIENCE_MS,
);

/** Returns the memory the process itself holds; pages of the log's file belong to the system. */
function usedBytes(): number {
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

function megabytes(bytes: number): number {
  return Math.round(bytes / 1_048_576);
}
