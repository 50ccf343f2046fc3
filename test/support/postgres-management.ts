import { randomBytes } from "node:crypto";
import { makeApiKeyStore } from "../../src/adapters/postgres/key-store.ts";
import { makeConfigStore } from "../../src/adapters/postgres/config-store.ts";
import type { Database } from "../../src/adapters/postgres/database.ts";
import type { EventRecord } from "../../src/domain/event.ts";
import { makeIdGenerator } from "../../src/domain/ids.ts";
import type { NewRecord } from "../../src/domain/log.ts";
import { makeApiKeys } from "../../src/management/api-keys.ts";
import { makeIngestTokens } from "../../src/management/ingest-token.ts";
import { makeManagement } from "../../src/management/make-management.ts";
import type { Actor } from "../../src/management/management.ts";
import type {
  ManagementOptions,
  ManagementPorts,
  TestAnswer,
  TestRequest,
} from "../../src/management/ports.ts";
import { systemClock } from "./log-fakes.ts";
import { testBox } from "./postgres-rows.ts";

/** Makes the use cases over a real store, with everything else in memory. `time.nowMs` advances by one on each reading. */
export function makeTestManagement(
  database: Database,
  overrides: Partial<ManagementPorts> = {},
  options: Partial<ManagementOptions> = {},
) {
  const time = { nowMs: Date.UTC(2026, 0, 1) };
  const now = () => (time.nowMs += 1);
  const newId = makeIdGenerator();
  const appended: NewRecord[][] = [];
  const events = new Map<string, EventRecord>();
  const posted: TestRequest[] = [];
  const answer: { value: TestAnswer } = {
    value: { kind: "answered", status: 200, eventId: "evt_test", body: "{}" },
  };
  const tokens = makeIngestTokens(new Uint8Array(32).fill(1), randomBytes);
  const store = makeConfigStore(database);
  const keys = makeApiKeyStore(database);
  const ports: ManagementPorts = {
    store,
    keys,
    box: testBox,
    tokens,
    log: {
      writesWhole: true,
      async append(records) {
        appended.push([...records]);
        return records.map((_, offset) => ({ partition: 0, offset }));
      },
    },
    events: {
      async event(orgId, id) {
        const event = events.get(id);
        return event?.orgId === orgId ? event : null;
      },
    },
    checkReceiver: async (url) => {
      if (!url.startsWith("https://")) return { ok: false, reason: "must be https" };
      return url.startsWith("https://10.")
        ? { ok: false, reason: "address 10.0.0.1 is not public" }
        : { ok: true };
    },
    postTest: async (request) => {
      posted.push(request);
      return answer.value;
    },
    now,
    clock: systemClock,
    random: Math.random,
    randomBytes,
    newId,
    ...overrides,
  };
  const management = makeManagement(ports, {
    publicIngestUrl: "https://in.example.com",
    testIngestUrl: "http://ingest.internal:8081",
    rotationOverlapMs: 86_400_000,
    ...options,
  });
  const apiKeys = makeApiKeys({ keys, now, randomBytes, newId });

  /** Creates an actor of a new organization. */
  async function makeActor(): Promise<Actor> {
    const { row } = await apiKeys.create(`org ${newId("organization", now())}`, ["read", "write"]);
    return { orgId: row.orgId, keyId: row.id, scopes: row.scopes };
  }

  return { management, apiKeys, makeActor, appended, events, posted, answer, time, store, tokens };
}

export function eventRecord(fields: Partial<EventRecord> = {}): EventRecord {
  const body = fields.body ?? Buffer.from('{"hello":"world"}');
  return {
    id: "evt_01J00000000000000000000000",
    orgId: "org_1",
    endpointId: "ep_1",
    provider: "custom",
    receivedAtMs: Date.UTC(2026, 0, 1),
    method: "POST",
    path: "/in/token",
    query: "",
    headers: [["content-type", "application/json"]],
    contentType: "application/json",
    sourceIp: "203.0.113.7",
    signatureValid: true,
    verificationError: null,
    reason: "ok",
    bodyStored: true,
    payloadSizeBytes: body.byteLength,
    body,
    ...fields,
  };
}
