import { createHash, randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import type { IngestPorts } from "../../../src/pipeline/ingest/ports.ts";
import { decodeEvent } from "../../../src/pipeline/log/event-codec.ts";
import { serverRig } from "../../support/ingest.ts";
import { collect } from "../../support/log-consumer.ts";
import { openTestLog, temporaryDir } from "../../support/log-lmdb.ts";

const SENDERS = 16;
const EACH = 40;
const SIZES_BYTES = [0, 100, 2_000, 10_000, 40_000, 110_000, 150_000, 400_000];

const digestOf = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

test("webhooks of all sizes that come at the same time, with verdicts at once and later, lie in the embedded log as they were sent: their memory is used again", async () => {
  await using dir = await temporaryDir();
  await using log = await openTestLog(dir.path);
  const verdict = { valid: true, reason: "ok", message: null } as const;
  const isInline: IngestPorts["isInline"] = ({ body }) => body.length < 20_000;
  await using rig = await serverRig({
    ports: {
      append: (records) => log.append(records),
      isInline,
      verify: (request) =>
        isInline(request)
          ? verdict
          : new Promise((resolve) => setTimeout(() => resolve(verdict), 5)),
    },
  });
  const found: (readonly [sent: string, stored: string])[] = [];
  await using _reading = await collect(log, {
    group: "reader",
    topics: ["events"],
    deadlineMs: 30_000,
    onRecords: (_partition, _topic, records) => {
      for (const { value } of records) {
        const { query, body } = decodeEvent(value);
        found.push([query, digestOf(body)]);
      }
    },
  });
  const sent: string[] = [];
  async function sendAll(sender: number): Promise<void> {
    for (let count = 0; count < EACH; count += 1) {
      const body = randomBytes(SIZES_BYTES[(sender + count) % SIZES_BYTES.length]!);
      const digest = digestOf(body);
      const answer = await fetch(`${rig.url}?${digest}`, { method: "POST", body });
      expect(answer.status).toBe(200);
      sent.push(digest);
    }
  }
  await Promise.all(Array.from({ length: SENDERS }, (_, sender) => sendAll(sender)));
  await expect.poll(() => found.length, { timeout: 30_000 }).toBe(SENDERS * EACH);
  expect(found.filter(([query, stored]) => query !== stored)).toEqual([]);
  expect(found.map(([query]) => query).toSorted()).toEqual(sent.toSorted());
}, 60_000);
