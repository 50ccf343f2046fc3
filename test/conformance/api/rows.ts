import type { ApiHarness, ApiRequest, FaultKind } from "../../support/api-harness.ts";
import {
  SAMPLES,
  UNKNOWN_IDS,
  expectStatus,
  fillPath,
  idNamesOf,
  idsOf,
  sampleOf,
} from "../../support/api-world.ts";
import type { Sample, World } from "../../support/api-world.ts";

export interface Row {
  readonly operation: string;
  readonly status: number;
  /** Null where the answer is not an error. */
  readonly code: string | null;
  readonly when: string;
  readonly needs?: FaultKind;
  prepare(world: World, harness: ApiHarness): ApiRequest | Promise<ApiRequest>;
}

const TOO_LARGE = JSON.stringify({ name: "x".repeat(1_048_577) });

function sampleRequest(sample: Sample, world: World): ApiRequest {
  const request = { ...fillPath(sample.operation, idsOf(world)), key: world.key };
  return sample.json === undefined ? request : { ...request, json: sample.json };
}

/** Returns the rows that every operation must pass, or every one with a body, ids or a write scope. */
function commonRows(sample: Sample): Row[] {
  const { operation, success } = sample;
  const [method] = operation.split(" ");
  const row = (
    status: number,
    code: string | null,
    when: string,
    change: (
      request: ApiRequest,
      world: World,
      harness: ApiHarness,
    ) => ApiRequest | Promise<ApiRequest>,
    needs?: FaultKind,
  ): Row => ({
    operation,
    status,
    code,
    when,
    ...(needs === undefined ? {} : { needs }),
    prepare: (world, harness) => change(sampleRequest(sample, world), world, harness),
  });
  const rows = [
    row(success, null, "the request is right", emptied),
    row(400, "validation_error", "a query parameter is unknown", (request) => ({
      ...request,
      path: `${request.path}?nonsense=1`,
    })),
    row(401, "unauthorized", "the key is missing", (request) => ({ ...request, key: null })),
    row(401, "unauthorized", "the key is unknown", (request) => ({ ...request, key: "rk_x_y" })),
    row(403, "forbidden", "the key lacks the scope", async (request, world, harness) => {
      const other = sample.scope === "read" ? "write" : "read";
      return { ...request, key: (await harness.newKey([other], world.orgId)).key };
    }),
    row(406, "not_acceptable", "the client refuses JSON", (request) => ({
      ...request,
      headers: { accept: "text/html" },
    })),
    row(429, "rate_limited", "the key asks too often", (request) => request, "rate_limited"),
    row(500, "internal_error", "something broke", (request) => request, "internal"),
    row(503, "unavailable", "the store is down", (request) => request, "unavailable"),
  ];
  if (idNamesOf(operation).length > 0)
    rows.push(
      row(404, "not_found", "the id is unknown", (request) => ({
        ...request,
        ...fillPath(operation, UNKNOWN_IDS),
      })),
      row(404, "not_found", "the id is none", (request) => ({
        ...request,
        ...fillPath(operation, {
          projectId: "%00",
          endpointId: "x",
          destinationId: "'",
          eventId: "é",
        }),
      })),
    );
  if (method !== "GET")
    rows.push(
      row(413, "payload_too_large", "the body is over 1 MiB", (request) => ({
        ...request,
        body: TOO_LARGE,
        headers: { "content-type": "application/json" },
      })),
    );
  if (sample.json === undefined) {
    if (method !== "GET")
      rows.push(
        row(400, "validation_error", "it gets a body that it does not take", (request) => ({
          ...request,
          json: { destination_id: "x" },
        })),
      );
  } else
    rows.push(
      row(400, "validation_error", "a field is unknown", (request) => ({
        ...request,
        json: { ...sample.json, nonsense: 1 },
      })),
      row(400, "validation_error", "the body is no JSON", (request) => ({
        ...request,
        body: "{",
        headers: { "content-type": "application/json" },
      })),
      row(415, "unsupported_media_type", "the body is a form", (request) => ({
        ...request,
        body: "name=x",
        headers: { "content-type": "application/x-www-form-urlencoded" },
      })),
    );
  return rows;
}

/** Deletes the endpoint before its project is deleted: only an empty project can be. */
async function emptied(request: ApiRequest, world: World): Promise<ApiRequest> {
  if (request.method === "DELETE" && request.path.startsWith("/projects/"))
    expectStatus(
      await world.client.send({
        method: "DELETE",
        path: `/endpoints/${world.endpointId}`,
        key: world.key,
      }),
      204,
    );
  return request;
}

async function makeEndpoint(world: World, json: object): Promise<string> {
  const path = `/projects/${world.projectId}/endpoints`;
  const answer = await world.client.send({ method: "POST", path, key: world.key, json });
  return expectStatus(answer, 201).json.data.id;
}

function withSample(
  operation: string,
  status: number,
  code: string,
  when: string,
  change: (
    request: ApiRequest,
    world: World,
    harness: ApiHarness,
  ) => ApiRequest | Promise<ApiRequest>,
  needs?: FaultKind,
): Row {
  return {
    operation,
    status,
    code,
    when,
    ...(needs === undefined ? {} : { needs }),
    prepare: (world, harness) => change(sampleRequest(sampleOf(operation), world), world, harness),
  };
}

const TEST = "POST /endpoints/{endpointId}/test";
const ROTATE = "POST /endpoints/{endpointId}/rotate-secret";
const CUSTOM = { name: "Custom", provider: "custom", secret: "s3cret" };
const JWT = {
  ...CUSTOM,
  verification_method: "jwt",
  verification_config: { algorithms: ["HS256"] },
};
const TWILIO = { name: "Twilio", provider: "twilio", secret: "token" };
const IP_LIST = {
  name: "Office",
  provider: "custom",
  verification_method: "ip_allowlist",
  verification_config: { allowed_ips: ["203.0.113.0/24"] },
};

const OWN_ROWS: readonly Row[] = [
  withSample("POST /projects", 409, "slug_taken", "the slug is taken", (request) => ({
    ...request,
    json: { name: "billing" },
  })),
  withSample(
    "PATCH /projects/{projectId}",
    409,
    "slug_taken",
    "another project has the slug",
    async (request, world) => {
      const other = { method: "POST", path: "/projects", key: world.key, json: { name: "Other" } };
      expectStatus(await world.client.send(other), 201);
      return { ...request, json: { slug: "other" } };
    },
  ),
  withSample(
    "DELETE /projects/{projectId}",
    409,
    "project_not_empty",
    "it has an endpoint",
    (request) => request,
  ),
  ...[JWT, IP_LIST].map((json) =>
    withSample(
      TEST,
      400,
      "endpoint_not_testable",
      `the method is ${json.verification_method}`,
      async (request, world) => ({
        ...request,
        path: `/endpoints/${await makeEndpoint(world, json)}/test`,
      }),
    ),
  ),
  withSample(TEST, 409, "endpoint_paused", "it is paused", async (request, world) => {
    const path = `/endpoints/${world.endpointId}/pause`;
    expectStatus(await world.client.send({ method: "POST", path, key: world.key }), 200);
    return request;
  }),
  withSample(
    TEST,
    503,
    "ingest_unreachable",
    "the ingest does not answer",
    (request) => request,
    "ingest_unreachable",
  ),
  withSample(
    ROTATE,
    400,
    "rotation_not_supported",
    "the method is ip_allowlist",
    async (request, world) => ({
      ...request,
      path: `/endpoints/${await makeEndpoint(world, IP_LIST)}/rotate-secret`,
    }),
  ),
  ...["replay", "destinations/{destinationId}/replay"].map((tail) =>
    withSample(
      `POST /events/{eventId}/${tail}`,
      409,
      "payload_not_stored",
      "its payload was not stored",
      async (request, world, harness) => {
        const eventId = await harness.newEvent(world.endpointId, { bodyStored: false });
        return { ...request, path: request.path.replace(world.eventId, eventId) };
      },
    ),
  ),
  withSample(
    "POST /events/{eventId}/destinations/{destinationId}/replay",
    404,
    "not_found",
    "the destination belongs to another endpoint",
    async (request, world) => {
      const endpointId = await makeEndpoint(world, TWILIO);
      const created = await world.client.send({
        method: "POST",
        path: `/endpoints/${endpointId}/destinations`,
        key: world.key,
        json: { name: "Elsewhere", receiver_url: "https://hooks.example.com/x" },
      });
      const { id } = expectStatus(created, 201).json.data;
      return { ...request, path: request.path.replace(world.destinationId, id) };
    },
  ),
];

export const ROWS: readonly Row[] = [...SAMPLES.flatMap(commonRows), ...OWN_ROWS];
