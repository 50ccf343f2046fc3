import type { Scope } from "../../src/domain/api-key.ts";
import type { ApiAnswer, ApiHarness, TestClient } from "./api-harness.ts";
import { makeTestClient } from "./api-harness.ts";

/** One organization with one of everything. */
export interface World {
  readonly key: string;
  readonly orgId: string;
  readonly client: TestClient;
  readonly projectId: string;
  readonly endpointId: string;
  readonly destinationId: string;
  readonly eventId: string;
}

export async function makeWorld(harness: ApiHarness, shared?: TestClient): Promise<World> {
  const { key, orgId } = await harness.newKey();
  const client = shared ?? (await makeTestClient(harness, null));
  const post = async (path: string, json: unknown): Promise<any> => {
    const answer = await client.send({ method: "POST", path, json, key });
    return expectStatus(answer, 201).json.data;
  };
  const project = await post("/projects", { name: "Billing" });
  const endpoint = await post(`/projects/${project.id}/endpoints`, {
    name: "GitHub",
    provider: "github",
    secret: "octocat-secret",
  });
  const destination = await post(`/endpoints/${endpoint.id}/destinations`, {
    name: "Ledger",
    receiver_url: "https://hooks.example.com/ledger",
  });
  const eventId = await harness.newEvent(endpoint.id);
  return {
    key,
    orgId,
    client,
    projectId: project.id,
    endpointId: endpoint.id,
    destinationId: destination.id,
    eventId,
  };
}

export function expectStatus(answer: ApiAnswer, status: number): ApiAnswer {
  if (answer.status !== status)
    throw new Error(`expected ${status}, got ${answer.status}: ${answer.text}`);
  return answer;
}

/** One valid request per operation, by its name in the specification. */
export interface Sample {
  readonly operation: string;
  readonly scope: Scope;
  readonly success: number;
  readonly json?: object;
}

export const SAMPLES: readonly Sample[] = [
  { operation: "GET /projects", scope: "read", success: 200 },
  { operation: "POST /projects", scope: "write", success: 201, json: { name: "Another" } },
  { operation: "GET /projects/{projectId}", scope: "read", success: 200 },
  {
    operation: "PATCH /projects/{projectId}",
    scope: "write",
    success: 200,
    json: { name: "Renamed", slug: "renamed" },
  },
  { operation: "DELETE /projects/{projectId}", scope: "write", success: 204 },
  { operation: "GET /projects/{projectId}/endpoints", scope: "read", success: 200 },
  {
    operation: "POST /projects/{projectId}/endpoints",
    scope: "write",
    success: 201,
    json: { name: "Open", provider: "custom", verification_method: "none" },
  },
  { operation: "GET /endpoints/{endpointId}", scope: "read", success: 200 },
  {
    operation: "PATCH /endpoints/{endpointId}",
    scope: "write",
    success: 200,
    json: { name: "Renamed" },
  },
  { operation: "DELETE /endpoints/{endpointId}", scope: "write", success: 204 },
  { operation: "POST /endpoints/{endpointId}/test", scope: "write", success: 200 },
  { operation: "POST /endpoints/{endpointId}/pause", scope: "write", success: 200 },
  { operation: "POST /endpoints/{endpointId}/resume", scope: "write", success: 200 },
  { operation: "POST /endpoints/{endpointId}/rotate-secret", scope: "write", success: 200 },
  { operation: "GET /endpoints/{endpointId}/destinations", scope: "read", success: 200 },
  {
    operation: "POST /endpoints/{endpointId}/destinations",
    scope: "write",
    success: 201,
    json: { name: "Second", receiver_url: "https://hooks.example.com/second" },
  },
  { operation: "GET /destinations/{destinationId}", scope: "read", success: 200 },
  {
    operation: "PATCH /destinations/{destinationId}",
    scope: "write",
    success: 200,
    json: { retry_max_attempts: 0, rate_limit_max: 10, rate_limit_window: "minute" },
  },
  { operation: "DELETE /destinations/{destinationId}", scope: "write", success: 204 },
  { operation: "POST /destinations/{destinationId}/pause", scope: "write", success: 200 },
  { operation: "POST /destinations/{destinationId}/resume", scope: "write", success: 200 },
  { operation: "POST /destinations/{destinationId}/rotate-secret", scope: "write", success: 200 },
  { operation: "GET /events", scope: "read", success: 200 },
  { operation: "GET /events/facets", scope: "read", success: 200 },
  { operation: "GET /events/{eventId}", scope: "read", success: 200 },
  { operation: "GET /events/{eventId}/attempts", scope: "read", success: 200 },
  { operation: "POST /events/{eventId}/replay", scope: "write", success: 200 },
  {
    operation: "POST /events/{eventId}/destinations/{destinationId}/replay",
    scope: "write",
    success: 200,
  },
];

export function sampleOf(operation: string): Sample {
  const sample = SAMPLES.find((each) => each.operation === operation);
  if (sample === undefined) throw new Error(`no sample of ${operation}`);
  return sample;
}

export type Ids = Readonly<Record<string, string>>;

/** Returns the request line of an operation with the ids filled in. */
export function fillPath(operation: string, ids: Ids): { method: string; path: string } {
  const [method = "", template = ""] = operation.split(" ");
  return { method, path: template.replaceAll(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? "") };
}

export function idNamesOf(operation: string): string[] {
  return [...operation.matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? "");
}

export function idsOf(world: World): Ids {
  const { projectId, endpointId, destinationId, eventId } = world;
  return { projectId, endpointId, destinationId, eventId };
}

/** Well-formed ids of nothing that exists. */
export const UNKNOWN_IDS: Ids = {
  projectId: "prj_01JD5Z8A4V00000000000000ZZ",
  endpointId: "ep_01JD5Z8A4V00000000000000ZZ",
  destinationId: "dst_01JD5Z8A4V00000000000000ZZ",
  eventId: "evt_01JD5Z8A4V00000000000000ZZ",
};
