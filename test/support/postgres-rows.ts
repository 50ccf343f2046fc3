import type { DestinationRow, EndpointRow, ProjectRow } from "../../src/domain/config-store.ts";
import { makeSecretBox, type SecretBox } from "../../src/management/secret-box.ts";
import { randomBytes } from "node:crypto";

/** Rows with every field set; a test names only those it is about. */
export const TEST_BOX_KEY = new Uint8Array(32).fill(7);
export const testBox: SecretBox = makeSecretBox({ key: TEST_BOX_KEY, randomBytes });

export function projectRow(fields: Partial<ProjectRow> = {}): ProjectRow {
  return { id: "prj_1", orgId: "org_1", name: "One", slug: "one", createdAtMs: 1_000, ...fields };
}

export function endpointRow(fields: Partial<EndpointRow> = {}): EndpointRow {
  const id = fields.id ?? "ep_1";
  return {
    id,
    orgId: "org_1",
    projectId: "prj_1",
    token: `token-of-${id}`,
    name: "Endpoint",
    provider: "custom",
    verificationMethod: "none",
    methodIsExplicit: true,
    status: "active",
    sealed: testBox.seal({ secret: null, config: {} }, id),
    createdAtMs: 1_000,
    updatedAtMs: 1_000,
    ...fields,
  };
}

export function destinationRow(fields: Partial<DestinationRow> = {}): DestinationRow {
  const id = fields.id ?? "dst_1";
  return {
    id,
    orgId: "org_1",
    endpointId: "ep_1",
    name: "Destination",
    receiverUrl: "https://receiver.example/hook",
    forwardOriginalSignature: false,
    status: "active",
    retryMaxAttempts: 5,
    retryBackoff: "exponential",
    rateLimitMax: null,
    rateLimitWindow: null,
    sealed: testBox.seal([{ secret: "whsec_one", signsUntilMs: null }], id),
    createdAtMs: 1_000,
    updatedAtMs: 1_000,
    ...fields,
  };
}
