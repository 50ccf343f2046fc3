import { createHmac } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Database } from "../../src/adapters/postgres/database.ts";
import { RelayError } from "../../src/domain/errors.ts";
import { LogError } from "../../src/domain/log.ts";
import type { NewRecord, Position } from "../../src/domain/log.ts";
import type { Actor, Endpoint } from "../../src/management/management.ts";
import {
  openDestination,
  openEndpoint,
  sealEndpoint,
} from "../../src/management/sealed-secrets.ts";
import { decodeOutcome } from "../../src/pipeline/log/outcome-codec.ts";
import { decodeTask } from "../../src/pipeline/log/task-codec.ts";
import { disableDestination } from "../../src/management/disable-destination.ts";
import { eventRecord, makeTestManagement } from "../support/postgres-management.ts";
import { startTestPostgres, type TestPostgres } from "../support/postgres.ts";
import { testBox } from "../support/postgres-rows.ts";
import { waitFor } from "../support/wait-for.ts";

let postgres: TestPostgres;
let harness: ReturnType<typeof makeTestManagement>;
let actor: Actor;
let other: Actor;

beforeAll(async () => {
  postgres = await startTestPostgres();
  harness = makeTestManagement(postgres.database);
  actor = await harness.makeActor();
  other = await harness.makeActor();
});
afterAll(async () => postgres[Symbol.asyncDispose]());

const FIRST_PAGE = { page: 1, limit: 50 };
const HMAC_CONFIG = { header: "X-Signature" };
let counter = 0;

async function makeProject() {
  counter += 1;
  return harness.management.projects.create(actor, { name: `Project ${counter}` });
}

async function makeEndpoint(input: object = {}): Promise<Endpoint> {
  const project = await makeProject();
  return harness.management.endpoints.create(actor, project.id, {
    name: "Hooks",
    provider: "custom",
    verificationMethod: "none",
    ...input,
  });
}

async function makeDestination(input: object = {}, endpointId?: string) {
  return harness.management.destinations.create(actor, endpointId ?? (await makeEndpoint()).id, {
    name: "Receiver",
    receiverUrl: "https://receiver.example/hook",
    ...input,
  });
}

async function auditOf(targetId: string) {
  const rows = await postgres.database.run(
    "SELECT actor, action, detail FROM audit_log WHERE target_id = $1 ORDER BY id",
    [targetId],
  );
  return rows.map((row) => `${String(row["actor"])} ${String(row["action"])}`);
}

describe("projects", () => {
  it("derives the slug from the name, and makes one up when nothing is left", async () => {
    const { projects } = harness.management;
    expect(await projects.create(actor, { name: "  Ärger & Söhne, Inc. " })).toMatchObject({
      slug: "rger-s-hne-inc",
    });
    expect((await projects.create(actor, { name: "日本" })).slug).toMatch(/^project-[a-z0-9]{6}$/);
  });

  it("refuses a slug that is taken in the organization, on create and on update, but not in another one", async () => {
    const { projects } = harness.management;
    const first = await projects.create(actor, { name: "Taken" });
    await expect(projects.create(actor, { name: "taken!" })).rejects.toMatchObject({
      code: "slug_taken",
    });
    const second = await projects.create(actor, { name: "Free" });
    await expect(projects.update(actor, second.id, { slug: first.slug })).rejects.toMatchObject({
      code: "slug_taken",
    });
    expect(await projects.create(other, { name: "Taken" })).toMatchObject({ slug: "taken" });
    expect(await projects.update(actor, second.id, { slug: "free" })).toEqual(second);
    expect(await auditOf(second.id)).toEqual([`${actor.keyId} project.create`]);
  });

  it("lists newest first, with a total for a page past the end", async () => {
    const someone = await harness.makeActor();
    const { projects } = harness.management;
    for (const name of ["a", "b", "c"]) await projects.create(someone, { name });
    const first = await projects.list(someone, { page: 1, limit: 2 });
    expect(first.items.map(({ name }) => name)).toEqual(["c", "b"]);
    expect(first.total).toBe(3);
    expect(await projects.list(someone, { page: 2, limit: 2 })).toMatchObject({
      items: [{ name: "a" }],
      total: 3,
    });
    expect(await projects.list(someone, { page: 9, limit: 2 })).toEqual({ items: [], total: 3 });
  });

  it("counts all of its endpoints, and all destinations of an endpoint, on every page", async () => {
    const { endpoints, destinations } = harness.management;
    const endpoint = await makeEndpoint();
    const last = await endpoints.create(actor, endpoint.projectId, {
      name: "Second",
      provider: "custom",
      verificationMethod: "none",
    });
    const made = [];
    for (let index = 0; index < 3; index += 1)
      made.unshift((await makeDestination({}, endpoint.id)).destination);
    const page = { page: 1, limit: 1 };
    expect(await endpoints.list(actor, endpoint.projectId, page)).toEqual({
      items: [last],
      total: 2,
    });
    expect(await destinations.list(actor, endpoint.id, { ...page, page: 3 })).toEqual({
      items: [made[2]],
      total: 3,
    });
  });

  it("is not deleted while it has endpoints, and frees its slug once it is", async () => {
    const { projects, endpoints } = harness.management;
    const endpoint = await makeEndpoint();
    await expect(projects.remove(actor, endpoint.projectId)).rejects.toMatchObject({
      code: "project_not_empty",
    });
    await endpoints.remove(actor, endpoint.id);
    const { name, slug } = await projects.get(actor, endpoint.projectId);
    await projects.remove(actor, endpoint.projectId);
    await expect(projects.get(actor, endpoint.projectId)).rejects.toMatchObject({
      code: "not_found",
      message: "Project not found",
    });
    expect(await projects.create(actor, { name })).toMatchObject({ slug });
  });
});

describe("endpoints", () => {
  it("sets method and scheme of a known provider by itself, and asks for its secret", async () => {
    const endpoint = await makeEndpoint({
      provider: "stripe",
      verificationMethod: undefined,
      secret: "whsec_x",
    });
    expect(endpoint).toMatchObject({
      provider: "stripe",
      verificationMethod: "hmac_sha256",
      status: "active",
      deletedAtMs: null,
    });
    expect(endpoint.url).toMatch(/^https:\/\/in\.example\.com\/in\/[\w-]{32}$/);
    await expect(
      makeEndpoint({ provider: "github", verificationMethod: undefined }),
    ).rejects.toMatchObject({ code: "validation_error", field: "secret" });
  });

  it("asks custom for a method, and refuses settings that the method does not know", async () => {
    await expect(makeEndpoint({ verificationMethod: undefined })).rejects.toMatchObject({
      code: "validation_error",
      field: "verification_method",
    });
    await expect(
      makeEndpoint({ verificationMethod: "hmac_sha256", verificationConfig: { heder: "X" } }),
    ).rejects.toMatchObject({ code: "validation_error", field: "verification_config.heder" });
  });

  it("takes a jwks_url that the guard would fetch and no other: a private one was taken, and every token refused", async () => {
    const { endpoints } = harness.management;
    const withKeysAt = (url: string) => ({
      verificationMethod: "jwt" as const,
      verificationConfig: { algorithms: ["EdDSA"], jwks_url: url },
    });
    const refusal = {
      code: "validation_error",
      field: "verification_config.jwks_url",
      message: "verification_config.jwks_url: address 10.0.0.1 is not public",
    };
    const endpoint = await makeEndpoint(withKeysAt("https://keys.example/jwks"));
    await expect(makeEndpoint(withKeysAt("https://10.0.0.1/jwks"))).rejects.toMatchObject(refusal);
    await expect(
      endpoints.update(actor, endpoint.id, withKeysAt("https://10.0.0.1/jwks")),
    ).rejects.toMatchObject(refusal);
  });

  it("keeps to the same rules when it is updated", async () => {
    const { endpoints } = harness.management;
    const endpoint = await makeEndpoint({
      verificationMethod: "hmac_sha256",
      secret: "s",
      verificationConfig: HMAC_CONFIG,
    });
    const stored = async () => {
      const row = await harness.store.endpoints.find(actor.orgId, endpoint.id);
      return { ...row, ...openEndpoint(testBox, row!) };
    };
    // A method that reads the same settings keeps them; any other starts without.
    await endpoints.update(actor, endpoint.id, { verificationMethod: "hmac_sha1" });
    expect(await stored()).toMatchObject({ config: HMAC_CONFIG, secret: "s" });
    await endpoints.update(actor, endpoint.id, { verificationMethod: "basic_auth" });
    expect(await stored()).toMatchObject({ config: {}, secret: "s" });
    // A known provider brings its own scheme.
    expect(await endpoints.update(actor, endpoint.id, { provider: "github" })).toMatchObject({
      provider: "github",
      verificationMethod: "hmac_sha256",
    });
    expect(await stored()).toMatchObject({ methodIsExplicit: false, config: {} });
    // Back to custom: its method must be named.
    await expect(
      endpoints.update(actor, endpoint.id, { provider: "custom" }),
    ).rejects.toMatchObject({ field: "verification_method" });
    expect(
      await endpoints.update(actor, endpoint.id, {
        provider: "custom",
        verificationMethod: "none",
      }),
    ).toMatchObject({ provider: "custom", verificationMethod: "none" });
  });

  it("becomes custom with the method that was chosen explicitly: it was answered 200 and the provider stayed", async () => {
    const { endpoints } = harness.management;
    const endpoint = await makeEndpoint({
      provider: "github",
      verificationMethod: "hmac_sha256",
      secret: "s",
      verificationConfig: HMAC_CONFIG,
    });
    expect(await endpoints.update(actor, endpoint.id, { provider: "custom" })).toMatchObject({
      provider: "custom",
      verificationMethod: "hmac_sha256",
    });
    const row = await harness.store.endpoints.find(actor.orgId, endpoint.id);
    expect({ ...row, ...openEndpoint(testBox, row!) }).toMatchObject({
      provider: "custom",
      methodIsExplicit: true,
      secret: "s",
      config: HMAC_CONFIG,
    });
  });

  it("stays with its provider's scheme where a PATCH says again what was answered: all webhooks were rejected from then on", async () => {
    const endpoint = await makeEndpoint({
      provider: "stripe",
      verificationMethod: undefined,
      secret: "s",
    });
    const { provider, verificationMethod } = endpoint;
    const { endpoints } = harness.management;
    const stored = async () => {
      const row = await harness.store.endpoints.find(actor.orgId, endpoint.id);
      return { ...row, ...openEndpoint(testBox, row!) };
    };
    await endpoints.update(actor, endpoint.id, { name: "renamed", provider, verificationMethod });
    expect(await stored()).toMatchObject({ name: "renamed", methodIsExplicit: false, config: {} });
    // With settings, the method is an explicit choice.
    const verificationConfig = HMAC_CONFIG;
    await endpoints.update(actor, endpoint.id, { verificationMethod, verificationConfig });
    expect(await stored()).toMatchObject({ methodIsExplicit: true, config: HMAC_CONFIG });
  });

  it("refuses to become a known provider's without a secret", async () => {
    const endpoint = await makeEndpoint();
    await expect(
      harness.management.endpoints.update(actor, endpoint.id, { provider: "stripe" }),
    ).rejects.toMatchObject({ code: "validation_error", field: "secret" });
  });

  it("audits what an update changed: every change of a secret was one of the provider, too", async () => {
    const endpoint = await makeEndpoint({
      provider: "github",
      verificationMethod: undefined,
      secret: "one",
    });
    await harness.management.endpoints.update(actor, endpoint.id, { secret: "two" });
    await harness.management.endpoints.update(actor, endpoint.id, { provider: "linear" });
    const rows = await postgres.database.run(
      "SELECT detail FROM audit_log WHERE target_id = $1 AND action = 'endpoint.update' ORDER BY id",
      [endpoint.id],
    );
    const fields = [["sealed"], ["provider", "sealed"]];
    expect(rows).toEqual(fields.map((changed) => ({ detail: { fields: changed } })));
  });

  it("changes nothing and audits nothing for an empty update", async () => {
    const endpoint = await makeEndpoint();
    expect(await harness.management.endpoints.update(actor, endpoint.id, {})).toEqual(endpoint);
    expect(await auditOf(endpoint.id)).toEqual([`${actor.keyId} endpoint.create`]);
  });

  it("changes nothing and audits nothing for what it holds already: the time of the update and the audit told of a change of secrets", async () => {
    const given = {
      provider: "custom",
      verificationMethod: "hmac_sha256",
      secret: "s",
      verificationConfig: { header: "X-Signature", prefix: "v1=" },
    } as const;
    const endpoint = await makeEndpoint(given);
    const { endpoints } = harness.management;
    const { name } = endpoint;
    const again = { ...given, verificationConfig: { prefix: "v1=", header: "X-Signature" } };
    for (const same of [{ name, ...given }, again, { provider: given.provider }])
      expect(await endpoints.update(actor, endpoint.id, same)).toEqual(endpoint);
    expect(await auditOf(endpoint.id)).toEqual([`${actor.keyId} endpoint.create`]);
    const longer = { ...given.verificationConfig, encoding: "base64" };
    await endpoints.update(actor, endpoint.id, { verificationConfig: longer });
    await endpoints.update(actor, endpoint.id, { secret: "t" });
    await endpoints.update(actor, endpoint.id, given);
    expect(await auditOf(endpoint.id)).toHaveLength(4);
    const row = await harness.store.endpoints.find(actor.orgId, endpoint.id);
    const { secret, verificationConfig: config } = given;
    expect(openEndpoint(testBox, row!)).toEqual(expect.objectContaining({ secret, config }));
  });

  it("pauses and resumes, each as often as one likes, and resume brings disabled back", async () => {
    const { endpoints } = harness.management;
    const { id, orgId } = await makeEndpoint();
    const paused = await endpoints.pause(actor, id);
    expect(paused.status).toBe("paused");
    expect(await endpoints.pause(actor, id)).toEqual(paused);
    expect(await endpoints.resume(actor, id)).toMatchObject({ status: "active" });
    await harness.store.endpoints.update(orgId, id, { status: "disabled" });
    expect(await endpoints.resume(actor, id)).toMatchObject({ status: "active" });
    expect(await auditOf(id)).toEqual([
      `${actor.keyId} endpoint.create`,
      `${actor.keyId} endpoint.pause`,
      `${actor.keyId} endpoint.resume`,
      `${actor.keyId} endpoint.resume`,
    ]);
  });

  it("rotates its secret where the relay may make one", async () => {
    const { endpoints } = harness.management;
    const endpoint = await makeEndpoint({
      verificationMethod: "hmac_sha256",
      secret: "old",
      verificationConfig: HMAC_CONFIG,
    });
    const rotated = await endpoints.rotateSecret(actor, endpoint.id);
    expect(rotated.id).toBe(endpoint.id);
    const row = await harness.store.endpoints.find(actor.orgId, endpoint.id);
    expect(openEndpoint(testBox, row!)).toEqual(
      expect.objectContaining({ secret: rotated.secret, config: HMAC_CONFIG }),
    );
    await expect(endpoints.rotateSecret(actor, (await makeEndpoint()).id)).rejects.toMatchObject({
      code: "rotation_not_supported",
    });
  });

  it("takes its destinations along when it is deleted", async () => {
    const { endpoints, destinations } = harness.management;
    const { destination } = await makeDestination();
    await endpoints.remove(actor, destination.endpointId);
    await expect(endpoints.get(actor, destination.endpointId)).rejects.toMatchObject({
      message: "Endpoint not found",
    });
    await expect(destinations.get(actor, destination.id)).rejects.toMatchObject({
      message: "Destination not found",
    });
    await expect(endpoints.remove(actor, destination.endpointId)).rejects.toMatchObject({
      code: "not_found",
    });
  });
});

describe("test webhooks", () => {
  const hmac = {
    verificationMethod: "hmac_sha256",
    secret: "s",
    verificationConfig: HMAC_CONFIG,
  };

  it("are signed and posted to the ingest URL, and say what it answered", async () => {
    const endpoint = await makeEndpoint(hmac);
    harness.answer.value = { kind: "answered", status: 200, eventId: "evt_9", body: "{}" };
    const url = endpoint.url.replace("https://in.example.com", "http://ingest.internal:8081");
    expect(await harness.management.endpoints.sendTest(actor, endpoint.id)).toEqual({
      accepted: true,
      status: 200,
      eventId: "evt_9",
      error: null,
      url,
    });
    const request = harness.posted.at(-1);
    expect(request).toMatchObject({ url, method: "POST" });
    expect(request?.headers.map(([name]) => name)).toContain("X-Signature");
  });

  it("sign the public path, whatever path they are posted to", async () => {
    const endpoint = await makeEndpoint({
      ...hmac,
      verificationConfig: { ...HMAC_CONFIG, signed_payload: "{path}.{body}" },
    });
    const { management, posted } = makeTestManagement(
      postgres.database,
      {},
      { publicIngestUrl: "https://example.com/hooks" },
    );
    await management.endpoints.sendTest(actor, endpoint.id);
    const { url, headers, body } = posted[0]!;
    const signed = createHmac("sha256", "s")
      .update(`/hooks${new URL(url).pathname}.`)
      .update(body);
    expect(headers).toContainEqual(["X-Signature", signed.digest("hex")]);
  });

  it("are posted to a disabled endpoint, whose ingest says what it is", async () => {
    const endpoint = await makeEndpoint(hmac);
    await harness.store.endpoints.update(actor.orgId, endpoint.id, { status: "disabled" });
    const message = "the endpoint is disabled";
    const body = JSON.stringify({ error: { code: "endpoint_disabled", message } });
    harness.answer.value = { kind: "answered", status: 403, eventId: "evt_9", body };
    const answer = await harness.management.endpoints.sendTest(actor, endpoint.id);
    expect(answer).toMatchObject({ accepted: false, status: 403, error: message });
  });

  it("report a refusal in the ingest service's own words", async () => {
    const endpoint = await makeEndpoint(hmac);
    harness.answer.value = {
      kind: "answered",
      status: 401,
      eventId: "evt_9",
      body: JSON.stringify({ error: { code: "verification_failed", message: "mismatch" } }),
    };
    expect(await harness.management.endpoints.sendTest(actor, endpoint.id)).toMatchObject({
      accepted: false,
      status: 401,
      eventId: null,
      error: "mismatch",
    });
    harness.answer.value = { kind: "answered", status: 502, eventId: null, body: "<html>" };
    expect(await harness.management.endpoints.sendTest(actor, endpoint.id)).toMatchObject({
      accepted: false,
      error: expect.stringContaining("502"),
    });
  });

  it("are accepted only by an answer that names the event: any website that answered 200 passed as the relay", async () => {
    const endpoint = await makeEndpoint(hmac);
    harness.answer.value = { kind: "answered", status: 200, eventId: null, body: "<html>welcome" };
    expect(await harness.management.endpoints.sendTest(actor, endpoint.id)).toMatchObject({
      accepted: false,
      status: 200,
      eventId: null,
      error: expect.stringContaining("answered 200 without the id of an event"),
    });
  });

  it.each([
    ["secret", "bearer_token", { secret: "top-secret-line1\nline2", config: {} }],
    ["secret", "bearer_token", { secret: "top-secret пароль", config: {} }],
    [
      "verification_config.scheme",
      "bearer_token",
      { secret: "top-secret", config: { scheme: "A\nB" } },
    ],
    [
      "verification_config.prefix",
      "hmac_sha256",
      { secret: "top-secret", config: { header: "X-Signature", prefix: "a\nb" } },
    ],
    [
      "verification_config.header",
      "hmac_sha256",
      { secret: "top-secret", config: { header: "Content-Length" } },
    ],
  ] as const)(
    "name the %s that no header can carry, of a %s endpoint stored earlier: it was told with its secret as an unreachable ingest",
    async (field, verificationMethod, stored) => {
      const endpoint = await makeEndpoint({ verificationMethod, secret: "s" });
      await harness.store.endpoints.update(actor.orgId, endpoint.id, {
        sealed: sealEndpoint(testBox, endpoint.id, stored),
      });
      const postedBefore = harness.posted.length;
      const failure = await harness.management.endpoints
        .sendTest(actor, endpoint.id)
        .catch((error: unknown) => error as Error);
      expect(failure).toMatchObject({ code: "endpoint_not_testable" });
      const { message } = failure as Error;
      expect(message).toContain(field);
      expect(message).not.toContain("top-secret");
      expect(harness.posted).toHaveLength(postedBefore);
    },
  );

  it("are refused for schemes that cannot be tested, paused endpoints, and an ingest that is away", async () => {
    const { endpoints } = harness.management;
    const twilio = await makeEndpoint({
      provider: "twilio",
      verificationMethod: undefined,
      secret: "t",
    });
    await expect(endpoints.sendTest(actor, twilio.id)).rejects.toMatchObject({
      code: "endpoint_not_testable",
    });
    const endpoint = await makeEndpoint(hmac);
    harness.answer.value = { kind: "unreachable", reason: "connection refused" };
    await expect(endpoints.sendTest(actor, endpoint.id)).rejects.toMatchObject({
      code: "ingest_unreachable",
      message: expect.stringContaining("connection refused"),
    });
    await endpoints.pause(actor, endpoint.id);
    await expect(endpoints.sendTest(actor, endpoint.id)).rejects.toMatchObject({
      code: "endpoint_paused",
    });
  });
});

describe("destinations", () => {
  it("has the documented defaults and shows its secret once", async () => {
    const { destination, serviceSecret } = await makeDestination();
    expect(destination).toMatchObject({
      forwardOriginalSignature: false,
      retryMaxAttempts: 5,
      retryBackoff: "exponential",
      rateLimitMax: null,
      rateLimitWindow: null,
      status: "active",
      deletedAtMs: null,
    });
    expect(serviceSecret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect(await harness.management.destinations.get(actor, destination.id)).toEqual(destination);
  });

  it("is made as it was asked for, also with what is 0", async () => {
    const asked = {
      name: "Ledger",
      receiverUrl: "https://receiver.example/ledger",
      forwardOriginalSignature: true,
      retryMaxAttempts: 0,
      retryBackoff: "linear",
      rateLimitMax: 1,
      rateLimitWindow: "day",
    } as const;
    const { destination } = await makeDestination(asked);
    expect(destination).toMatchObject(asked);
    expect(await harness.management.destinations.get(actor, destination.id)).toEqual(destination);
  });

  it("refuses half a rate limit, on create and on update", async () => {
    await expect(makeDestination({ rateLimitMax: 5 })).rejects.toMatchObject({
      field: "rate_limit_window",
    });
    await expect(makeDestination({ rateLimitWindow: "minute" })).rejects.toMatchObject({
      field: "rate_limit_max",
    });
    const { destination } = await makeDestination({ rateLimitMax: 5, rateLimitWindow: "minute" });
    const { destinations } = harness.management;
    await expect(
      destinations.update(actor, destination.id, { rateLimitMax: null }),
    ).rejects.toMatchObject({ code: "validation_error" });
    expect(await destinations.update(actor, destination.id, { rateLimitMax: 7 })).toMatchObject({
      rateLimitMax: 7,
      rateLimitWindow: "minute",
    });
    expect(
      await destinations.update(actor, destination.id, {
        rateLimitMax: null,
        rateLimitWindow: null,
      }),
    ).toMatchObject({ rateLimitMax: null, rateLimitWindow: null });
  });

  it("refuses a receiver that is not https and public, on create and on update", async () => {
    await expect(makeDestination({ receiverUrl: "http://x.example" })).rejects.toMatchObject({
      code: "validation_error",
      field: "receiver_url",
    });
    const { destination } = await makeDestination();
    await expect(
      harness.management.destinations.update(actor, destination.id, { receiverUrl: "http://x" }),
    ).rejects.toMatchObject({ field: "receiver_url" });
  });

  it("is not made where its endpoint is deleted while its receiver is looked up", async () => {
    const { id: endpointId } = await makeEndpoint();
    const { management } = makeTestManagement(postgres.database, {
      checkReceiver: async () => {
        await harness.management.endpoints.remove(actor, endpointId);
        return { ok: true };
      },
    });
    const input = { name: "Receiver", receiverUrl: "https://receiver.example" };
    await expect(management.destinations.create(actor, endpointId, input)).rejects.toMatchObject({
      message: "Endpoint not found",
    });
    expect(await harness.store.destinations.children(actor.orgId, endpointId)).toEqual([]);
  });

  it("answers the URI that is dialled: what no URI may hold was answered as it was typed", async () => {
    const receiverUrl = "https://receiver.example/é?tags[]=a";
    const uri = "https://receiver.example/%C3%A9?tags%5B%5D=a";
    const { destination } = await makeDestination({ receiverUrl });
    expect(destination.receiverUrl).toBe(uri);
    const { destinations } = harness.management;
    const other = await makeDestination();
    const changed = await destinations.update(actor, other.destination.id, { receiverUrl });
    expect(changed.receiverUrl).toBe(uri);
    const again = await destinations.update(actor, other.destination.id, { receiverUrl });
    expect(again.updatedAtMs).toBe(changed.updatedAtMs);
  });

  it("refuses a receiver URL that is too long once it is percent-encoded: it was answered, and dialled, in a length that no PATCH takes", async () => {
    const host = "https://receiver.example/";
    const longest = host + "%C3%A9".repeat(337) + "x";
    const { destination } = await makeDestination({ receiverUrl: `${host}${"é".repeat(337)}x` });
    expect(destination.receiverUrl).toBe(longest);
    expect(longest).toHaveLength(2_048);
    const receiverUrl = `${host}${"é".repeat(338)}`;
    const refused = { code: "validation_error", field: "receiver_url" };
    await expect(makeDestination({ receiverUrl })).rejects.toMatchObject(refused);
    const { destinations } = harness.management;
    await expect(destinations.update(actor, destination.id, { receiverUrl })).rejects.toMatchObject(
      refused,
    );
  });

  it("keeps the secrets that were rotated away for the overlap, at most three in all", async () => {
    const { destinations } = harness.management;
    const { destination, serviceSecret } = await makeDestination();
    const secretsOf = async () => {
      const row = await harness.store.destinations.find(actor.orgId, destination.id);
      return openDestination(testBox, row!);
    };
    const made = [serviceSecret];
    for (let round = 0; round < 4; round += 1)
      made.unshift((await destinations.rotateSecret(actor, destination.id)).serviceSecret);
    expect(new Set(made).size).toBe(made.length);
    expect((await secretsOf()).map(({ secret }) => secret)).toEqual(made.slice(0, 3));
    expect((await secretsOf()).map(({ signsUntilMs }) => signsUntilMs === null)).toEqual([
      true,
      false,
      false,
    ]);
    harness.time.nowMs += 86_400_001;
    const { serviceSecret: newest } = await destinations.rotateSecret(actor, destination.id);
    expect((await secretsOf()).map(({ secret }) => secret)).toEqual([newest, made[0]]);
  });

  it("is disabled when its receiver is gone, by the relay and with a reason, and resume brings it back", async () => {
    const { destination } = await makeDestination();
    const ports = { store: harness.store, now: () => harness.time.nowMs };
    const gone = { ...destination, triedAtMs: harness.time.nowMs };
    expect(await disableDestination(ports, gone, "the receiver answered 410")).toBe(true);
    expect(await disableDestination(ports, gone, "again")).toBe(false);
    const { destinations } = harness.management;
    expect(await destinations.get(actor, destination.id)).toMatchObject({ status: "disabled" });
    expect(await auditOf(destination.id)).toContain("relay destination.disable");
    expect(await destinations.resume(actor, destination.id)).toMatchObject({ status: "active" });
    await destinations.remove(actor, destination.id);
    expect(await disableDestination(ports, gone, "gone")).toBe(false);
  });

  it("is not disabled again by a late 410 of a try that began before it was resumed", async () => {
    const { destination } = await makeDestination();
    const ports = { store: harness.store, now: () => harness.time.nowMs };
    const gone = { ...destination, triedAtMs: harness.time.nowMs };
    expect(await disableDestination(ports, gone, "the receiver answered 410")).toBe(true);
    harness.time.nowMs += 1_000;
    await harness.management.destinations.resume(actor, destination.id);
    expect(await disableDestination(ports, gone, "the receiver answered 410")).toBe(false);
    const again = { ...gone, triedAtMs: harness.time.nowMs };
    expect(await disableDestination(ports, again, "the receiver answered 410")).toBe(true);
  });

  it("regression: is disabled by a 410 after the clock was set back: none counted until the clock had reached its last change again", async () => {
    const { destination } = await makeDestination();
    const setBack = harness.time.nowMs - 7_200_000;
    const ports = { store: harness.store, now: () => setBack + 1_000 };
    const gone = { ...destination, triedAtMs: setBack };
    expect(await disableDestination(ports, gone, "the receiver answered 410")).toBe(true);
  });

  it("never looks older after a change than before it, though the clock was set back", async () => {
    const { destinations } = harness.management;
    const { destination } = await makeDestination();
    const { nowMs } = harness.time;
    harness.time.nowMs = nowMs - 7_200_000;
    try {
      const paused = await destinations.pause(actor, destination.id);
      expect(paused.updatedAtMs).toBe(destination.updatedAtMs);
      await destinations.resume(actor, destination.id);
      const ports = { store: harness.store, now: () => harness.time.nowMs };
      const gone = { ...destination, triedAtMs: harness.time.nowMs };
      expect(await disableDestination(ports, gone, "the receiver answered 410")).toBe(true);
      const disabled = await destinations.get(actor, destination.id);
      expect(disabled.updatedAtMs).toBe(destination.updatedAtMs);
    } finally {
      harness.time.nowMs = nowMs;
    }
  });

  it("is not disabled by a late 410 of a try that began before a change by a clock somewhat ahead", async () => {
    const { destination } = await makeDestination();
    const behindMs = harness.time.nowMs - 5_000;
    const ports = { store: harness.store, now: () => behindMs };
    const gone = { ...destination, triedAtMs: behindMs - 1_000 };
    expect(await disableDestination(ports, gone, "the receiver answered 410")).toBe(false);
  });

  it("stays paused at a 410 of a try that was underway, though the clock of its process is ahead", async () => {
    const { destination } = await makeDestination();
    await harness.management.destinations.pause(actor, destination.id);
    const ports = { store: harness.store, now: () => harness.time.nowMs };
    const gone = { ...destination, triedAtMs: harness.time.nowMs + 1_000 };
    expect(await disableDestination(ports, gone, "the receiver answered 410")).toBe(false);
    const { destinations } = harness.management;
    expect(await destinations.get(actor, destination.id)).toMatchObject({ status: "paused" });
  });

  it("is not disabled by a late 410 of the URL that it had before", async () => {
    const { destination } = await makeDestination();
    const { destinations } = harness.management;
    await destinations.update(actor, destination.id, {
      receiverUrl: "https://mended.example.com/hook",
    });
    const ports = { store: harness.store, now: () => harness.time.nowMs };
    const gone = { ...destination, triedAtMs: harness.time.nowMs };
    expect(await disableDestination(ports, gone, "the receiver answered 410")).toBe(false);
    expect(await destinations.get(actor, destination.id)).toMatchObject({ status: "active" });
    expect(await auditOf(destination.id)).not.toContain("relay destination.disable");
  });
});

describe("replays", () => {
  async function makeEvent(fields: object = {}) {
    const endpoint = await makeEndpoint();
    const event = eventRecord({
      id: `evt_${endpoint.id.slice(3)}`,
      orgId: actor.orgId,
      endpointId: endpoint.id,
      ...fields,
    });
    harness.events.set(event.id, event);
    return event;
  }

  it("enqueue one task per active destination, with what tells of it in the same append", async () => {
    const event = await makeEvent();
    const ids = [];
    for (let index = 0; index < 4; index += 1)
      ids.push((await makeDestination({}, event.endpointId)).destination.id);
    await harness.management.destinations.pause(actor, ids[1]!);
    await harness.store.destinations.update(actor.orgId, ids[3]!, { status: "disabled" });
    harness.appended.length = 0;
    const active = [ids[0], ids[2]];
    expect(await harness.management.replays.toAll(actor, event.id)).toEqual({
      eventId: event.id,
      enqueued: active,
    });
    expect(harness.appended).toHaveLength(1);
    const tasks = harness.appended[0]!.slice(0, -1);
    const fanout = harness.appended[0]!.at(-1);
    expect(fanout).toMatchObject({ topic: "attempts", key: event.endpointId });
    const outcome = decodeOutcome(fanout!.value);
    expect(outcome).toMatchObject({ kind: "fanout", eventId: event.id, destinationIds: active });
    expect(tasks.map(({ topic, key }) => `${topic} ${key}`)).toEqual([
      `tasks ${event.endpointId}`,
      `tasks ${event.endpointId}`,
    ]);
    const decoded = tasks.map(({ value }) => decodeTask(value));
    expect(decoded.map(({ destinationId }) => destinationId)).toEqual(active);
    for (const task of decoded) {
      expect(task).toMatchObject({ trigger: "replay", tryNumber: 1, deferrals: 0 });
      expect(task.run).toMatch(/^[0-9A-HJKMNP-TV-Z]{26}$/);
      expect(task.run).toBe(outcome.kind === "fanout" ? outcome.run : "");
      expect(Buffer.from(task.event.body)).toEqual(Buffer.from(event.body));
    }
    expect(await auditOf(event.id)).toEqual([`${actor.keyId} event.replay`]);
  });

  it("reach one destination even when it is paused, but not a deleted or another endpoint's one", async () => {
    const { replays, destinations } = harness.management;
    const event = await makeEvent();
    const { destination } = await makeDestination({}, event.endpointId);
    await destinations.pause(actor, destination.id);
    expect(await replays.toOne(actor, event.id, destination.id)).toEqual({
      eventId: event.id,
      destinationId: destination.id,
    });
    await destinations.remove(actor, destination.id);
    await expect(replays.toOne(actor, event.id, destination.id)).rejects.toMatchObject({
      message: "Destination not found",
    });
    const elsewhere = await makeDestination();
    await expect(replays.toOne(actor, event.id, elsewhere.destination.id)).rejects.toMatchObject({
      message: "Destination not found",
    });
  });

  it("enqueue nothing when the endpoint is deleted", async () => {
    const event = await makeEvent();
    const { destination } = await makeDestination({}, event.endpointId);
    await harness.management.endpoints.remove(actor, event.endpointId);
    const { replays } = harness.management;
    expect(await replays.toAll(actor, event.id)).toEqual({ eventId: event.id, enqueued: [] });
    await expect(replays.toOne(actor, event.id, destination.id)).rejects.toMatchObject({
      code: "not_found",
    });
  });

  it("are refused for an event without its payload, and for another organization's", async () => {
    const event = await makeEvent({ bodyStored: false });
    const { replays } = harness.management;
    await expect(replays.toAll(actor, event.id)).rejects.toMatchObject({
      code: "payload_not_stored",
    });
    await expect(replays.toAll(other, event.id)).rejects.toMatchObject({
      message: "Event not found",
    });
  });

  it("to a destination that does not exist are 404, also of an event without its payload (regression: 409)", async () => {
    const event = await makeEvent({ bodyStored: false });
    const { destination } = await makeDestination({}, event.endpointId);
    const elsewhere = await makeDestination();
    const { replays } = harness.management;
    await expect(replays.toOne(actor, event.id, destination.id)).rejects.toMatchObject({
      code: "payload_not_stored",
    });
    for (const id of [`dst_${"0".repeat(26)}`, elsewhere.destination.id])
      await expect(replays.toOne(actor, event.id, id)).rejects.toMatchObject({
        code: "not_found",
        message: "Destination not found",
      });
  });

  it.each<[string, object]>([
    ["bodies", { body: new Uint8Array(6 * 1024 * 1024) }],
    [
      "headers (regression: tasks of a small body with 16 KB of them to thousands of destinations were more than the log takes at once)",
      { headers: [["X-Large", "a".repeat(6 * 1024 * 1024)]] },
    ],
  ])("append large %s in parts", async (_, fields) => {
    const event = await makeEvent(fields);
    for (let index = 0; index < 5; index += 1) await makeDestination({}, event.endpointId);
    harness.appended.length = 0;
    await harness.management.replays.toAll(actor, event.id);
    expect(harness.appended.map((records) => records.length)).toEqual([3, 3, 2]);
  });

  it("append a body that is as large as a part for one destination at a time, each once", async () => {
    const event = await makeEvent({ body: new Uint8Array(16 * 1024 * 1024) });
    for (let index = 0; index < 2; index += 1) await makeDestination({}, event.endpointId);
    harness.appended.length = 0;
    const { enqueued } = await harness.management.replays.toAll(actor, event.id);
    const tasks = harness.appended.map((records) =>
      records.filter(({ topic }) => topic === "tasks").map(({ value }) => decodeTask(value)),
    );
    expect(tasks.map((part) => part.map(({ destinationId }) => destinationId))).toEqual(
      enqueued.map((id) => [id]),
    );
    expect(enqueued).toHaveLength(2);
  });

  it("of large bodies count every destination: each part is a run of its own, whose fan-out another's does not replace", async () => {
    const event = await makeEvent({ body: new Uint8Array(6 * 1024 * 1024) });
    for (let index = 0; index < 5; index += 1) await makeDestination({}, event.endpointId);
    harness.appended.length = 0;
    const { enqueued } = await harness.management.replays.toAll(actor, event.id);
    const destinationsByRun = new Map<string, readonly string[]>();
    for (const records of harness.appended) {
      const tasks = records.slice(0, -1);
      const outcome = decodeOutcome(records.at(-1)!.value);
      if (outcome.kind !== "fanout") throw new Error("an append without its fan-out");
      const decoded = tasks.map(({ value }) => decodeTask(value));
      expect(decoded.map(({ destinationId }) => destinationId)).toEqual(outcome.destinationIds);
      expect(new Set(decoded.map(({ run }) => run))).toEqual(new Set([outcome.run]));
      destinationsByRun.set(outcome.run, outcome.destinationIds);
    }
    expect([...destinationsByRun.values()].flat()).toEqual(enqueued);
    expect(enqueued).toHaveLength(5);
  });

  it("of large bodies let others at the store between their appends", async () => {
    let reading: Promise<unknown> | null = null;
    let isRead = false;
    let appends = 0;
    const { management, events } = makeTestManagement(postgres.database, {
      log: {
        writesWhole: true,
        async append() {
          appends += 1;
          reading ??= postgres.database.run("SELECT 1", []).then(() => (isRead = true));
          if (appends === 3) await waitFor("the read between two appends", () => isRead);
          return [];
        },
      },
    });
    const event = await makeEvent({ body: new Uint8Array(6 * 1024 * 1024) });
    for (let index = 0; index < 5; index += 1) await makeDestination({}, event.endpointId);
    events.set(event.id, event);
    await management.replays.toAll(actor, event.id);
    expect(appends).toBe(3);
  });

  it("regression: hold no transaction while the log takes them: a log that was away kept every connection, and all of the embedded store, from everybody else", async () => {
    let open = 0;
    const openAtAppend: number[] = [];
    const { management, events } = makeTestManagement(
      {
        ...postgres.database,
        transaction: async (work) => {
          open += 1;
          try {
            return await postgres.database.transaction(work);
          } finally {
            open -= 1;
          }
        },
      },
      {
        log: {
          writesWhole: false,
          async append(records) {
            openAtAppend.push(open);
            return records.map((_, offset) => ({ partition: 0, offset }));
          },
        },
      },
    );
    const event = await makeEvent();
    await makeDestination({}, event.endpointId);
    events.set(event.id, event);
    await management.replays.toAll(actor, event.id);
    expect(openAtAppend).toEqual([0, 0]);
    expect(await auditOf(event.id)).toEqual([`${actor.keyId} event.replay`]);
  });

  it("of large bodies audit what they ask for, and then what a full log did not take", async () => {
    let appends = 0;
    const { management, events } = makeTestManagement(postgres.database, {
      log: {
        writesWhole: true,
        async append() {
          appends += 1;
          if (appends === 3) throw new LogError("log_full", "full");
          return [];
        },
      },
    });
    const event = await makeEvent({ body: new Uint8Array(6 * 1024 * 1024) });
    const ids: string[] = [];
    for (let index = 0; index < 5; index += 1)
      ids.push((await makeDestination({}, event.endpointId)).destination.id);
    events.set(event.id, event);
    await expect(management.replays.toAll(actor, event.id)).rejects.toMatchObject({
      code: "unavailable",
    });
    const rows = await postgres.database.run(
      "SELECT action, detail FROM audit_log WHERE target_id = $1 ORDER BY id",
      [event.id],
    );
    const [asked, failed] = rows.map(({ action, detail }) => ({
      action,
      ...(detail as { destinationIds: string[]; runs: string[] }),
    }));
    expect(rows).toHaveLength(2);
    expect(asked).toMatchObject({ action: "event.replay", destinationIds: ids });
    expect(asked!.runs).toHaveLength(3);
    expect(failed).toMatchObject({ action: "event.replay_failed", destinationIds: ids.slice(4) });
    expect(failed!.runs).toEqual(asked!.runs.slice(2));
  });

  it("regression: on a log that may write a part of a call the tasks come before their fan-out: what that told of alone was pending for ever", async () => {
    const taken: NewRecord[] = [];
    let refuses: NewRecord["topic"] | null = "tasks";
    const { management, events } = makeTestManagement(postgres.database, {
      log: {
        writesWhole: false,
        async append(records) {
          const left = records.filter(({ topic }) => topic !== refuses);
          taken.push(...left);
          if (left.length < records.length) throw new LogError("log_unavailable", "its leader");
          return left.map((_, offset) => ({ partition: 0, offset }));
        },
      },
    });
    const event = await makeEvent();
    await makeDestination({}, event.endpointId);
    events.set(event.id, event);
    const topics = () => taken.splice(0).map(({ topic }) => topic);
    const replay = () => management.replays.toAll(actor, event.id);
    await expect(replay()).rejects.toMatchObject({ code: "unavailable" });
    expect(topics()).toEqual([]);
    refuses = "attempts";
    await expect(replay()).rejects.toMatchObject({ code: "unavailable" });
    expect(topics()).toEqual(["tasks"]);
    refuses = null;
    await replay();
    expect(topics()).toEqual(["tasks", "attempts"]);
  });

  it("regression: enqueue nothing while the store takes no writes: each was answered 503, try again, and delivered as often as it was tried", async () => {
    let appends = 0;
    const readOnly = <T>(work: (run: Database["run"]) => Promise<T>): Promise<T> =>
      postgres.database.transaction(async (run) => {
        await run("SET TRANSACTION READ ONLY", []);
        return work(run);
      });
    const { management, events } = makeTestManagement(
      {
        ...postgres.database,
        transaction: readOnly,
        run: (text, parameters) => readOnly((run) => run(text, parameters)),
      },
      {
        log: {
          writesWhole: true,
          async append(records) {
            appends += 1;
            return records.map((_, offset) => ({ partition: 0, offset }));
          },
        },
      },
    );
    const event = await makeEvent();
    const { destination } = await makeDestination({}, event.endpointId);
    events.set(event.id, event);
    for (const replaying of [
      management.replays.toAll(actor, event.id),
      management.replays.toOne(actor, event.id, destination.id),
    ])
      await expect(replaying).rejects.toMatchObject({ code: "unavailable" });
    expect(appends).toBe(0);
  });

  /** Makes a management whose store is away once the log was asked to take records. */
  function makeLosingStore(append: (records: readonly NewRecord[]) => Position[]) {
    let isDown = false;
    return makeTestManagement(
      {
        ...postgres.database,
        run: async (text, parameters) => {
          if (isDown) throw new RelayError("unavailable", "the store is away");
          return postgres.database.run(text, parameters);
        },
      },
      {
        log: {
          writesWhole: true,
          async append(records) {
            isDown = true;
            return append(records);
          },
        },
      },
    );
  }

  it("regression: are audited before the log has them: what it took was answered 503 without a row where the store failed after it, and delivered once more when it was asked for again", async () => {
    const appended: NewRecord[] = [];
    const { management, events } = makeLosingStore((records) => {
      appended.push(...records);
      return records.map((_, offset) => ({ partition: 0, offset }));
    });
    const event = await makeEvent();
    const { destination } = await makeDestination({}, event.endpointId);
    events.set(event.id, event);
    await management.replays.toOne(actor, event.id, destination.id);
    expect(appended).toHaveLength(2);
    expect(await auditOf(event.id)).toEqual([`${actor.keyId} event.replay`]);
  });

  it("answer what the log said where the store is away as well", async () => {
    const { management, events } = makeLosingStore(() => {
      throw new LogError("log_full", "full");
    });
    const event = await makeEvent();
    await makeDestination({}, event.endpointId);
    events.set(event.id, event);
    await expect(management.replays.toAll(actor, event.id)).rejects.toMatchObject({
      message: "The log cannot take the replay now; try again.",
    });
    expect(await auditOf(event.id)).toEqual([`${actor.keyId} event.replay`]);
  });

  it("that are asked for at the same time share statements, and each has its audit row: each took two transactions of its own", async () => {
    let inserts = 0;
    const { management, events, appended } = makeTestManagement({
      ...postgres.database,
      run: (text, parameters) => {
        if (text.includes("INSERT INTO audit_log")) inserts += 1;
        return postgres.database.run(text, parameters);
      },
    });
    const first = await makeEvent();
    const { destination } = await makeDestination({}, first.endpointId);
    const all = Array.from({ length: 20 }, (_, index) =>
      eventRecord({ ...first, id: `${first.id.slice(0, -2)}${10 + index}` }),
    );
    for (const event of all) events.set(event.id, event);
    await Promise.all(
      all.map((event) => management.replays.toOne(actor, event.id, destination.id)),
    );
    expect(appended).toHaveLength(all.length);
    expect(inserts).toBeLessThanOrEqual(all.length / 2);
    for (const event of all)
      expect(await auditOf(event.id)).toEqual([`${actor.keyId} event.replay`]);
  });

  it("say unavailable when the log cannot take them, and the audit says that they failed", async () => {
    const broken = makeTestManagement(postgres.database, {
      log: {
        writesWhole: true,
        async append() {
          throw new LogError("log_full", "full");
        },
      },
    });
    const event = await makeEvent();
    await makeDestination({}, event.endpointId);
    broken.events.set(event.id, event);
    await expect(broken.management.replays.toAll(actor, event.id)).rejects.toMatchObject({
      code: "unavailable",
    });
    expect(await auditOf(event.id)).toEqual([
      `${actor.keyId} event.replay`,
      `${actor.keyId} event.replay_failed`,
    ]);
  });
});

describe("the audit", () => {
  it("has a row of each write, by the key that made it", async () => {
    const { projects, endpoints, destinations } = harness.management;
    harness.answer.value = { kind: "answered", status: 200, eventId: "evt_9", body: "{}" };
    const project = await makeProject();
    const endpoint = await endpoints.create(actor, project.id, {
      name: "Hooks",
      provider: "custom",
      verificationMethod: "bearer_token",
      secret: "s",
    });
    const { destination } = await makeDestination({}, endpoint.id);
    await projects.update(actor, project.id, { name: "renamed" });
    await endpoints.update(actor, endpoint.id, { name: "renamed" });
    await endpoints.rotateSecret(actor, endpoint.id);
    await endpoints.sendTest(actor, endpoint.id);
    await destinations.update(actor, destination.id, { name: "renamed" });
    await destinations.rotateSecret(actor, destination.id);
    for (const [resources, { id }] of [
      [endpoints, endpoint],
      [destinations, destination],
    ] as const) {
      await resources.pause(actor, id);
      await resources.resume(actor, id);
    }
    await destinations.remove(actor, destination.id);
    await endpoints.remove(actor, endpoint.id);
    await projects.remove(actor, project.id);
    const rowsOf = (kind: string, ...actions: readonly string[]) =>
      actions.map((action) => `${actor.keyId} ${kind}.${action}`);
    expect(await auditOf(project.id)).toEqual(rowsOf("project", "create", "update", "delete"));
    const ofEndpoint = ["create", "update", "rotate_secret", "test", "pause", "resume", "delete"];
    expect(await auditOf(endpoint.id)).toEqual(rowsOf("endpoint", ...ofEndpoint));
    const ofDestination = ["create", "update", "rotate_secret", "pause", "resume", "delete"];
    expect(await auditOf(destination.id)).toEqual(rowsOf("destination", ...ofDestination));
  });

  it("is written with what it tells of, or neither is", async () => {
    const { management } = makeTestManagement({
      ...postgres.database,
      transaction: (work) =>
        postgres.database.transaction((run) =>
          work(async (text, parameters) => {
            if (text.includes("INSERT INTO audit_log")) throw new Error("no audit");
            return run(text, parameters);
          }),
        ),
    });
    const { destination } = await makeDestination();
    const { id, endpointId } = destination;
    const endpoint = await harness.management.endpoints.get(actor, endpointId);
    const project = await harness.management.projects.get(actor, endpoint.projectId);
    for (const write of [
      () => management.projects.update(actor, project.id, { name: "changed" }),
      () => management.endpoints.update(actor, endpointId, { name: "changed" }),
      () => management.endpoints.remove(actor, endpointId),
      () => management.destinations.pause(actor, id),
      () => management.destinations.remove(actor, id),
    ])
      await expect(write()).rejects.toThrow("no audit");
    expect(await harness.management.projects.get(actor, project.id)).toEqual(project);
    expect(await harness.management.endpoints.get(actor, endpointId)).toEqual(endpoint);
    expect(await harness.management.destinations.get(actor, id)).toEqual(destination);
  });
});

describe("tenant isolation", () => {
  it("answers every use case on another organization's id as for an unknown one", async () => {
    const { management: m } = harness;
    const { destination } = await makeDestination();
    const { id, endpointId } = destination;
    const { projectId } = await m.endpoints.get(actor, endpointId);
    const event = eventRecord({ id: "evt_iso", orgId: actor.orgId, endpointId });
    harness.events.set(event.id, event);
    const input = { name: "n", provider: "custom", verificationMethod: "none" } as const;
    // Refused, but only where there is something to write it to: nobody else's is looked up.
    const target = { name: "n", receiverUrl: "http://r.example" };
    const calls: Record<
      string,
      (project: string, ep: string, dst: string, evt: string) => Promise<unknown>
    > = {
      "projects.get": (p) => m.projects.get(other, p),
      "projects.update": (p) => m.projects.update(other, p, { name: "x" }),
      "projects.remove": (p) => m.projects.remove(other, p),
      "endpoints.list": (p) => m.endpoints.list(other, p, FIRST_PAGE),
      "endpoints.create": (p) => m.endpoints.create(other, p, input),
      "endpoints.get": (_, e) => m.endpoints.get(other, e),
      "endpoints.update": (_, e) => m.endpoints.update(other, e, { name: "x" }),
      "endpoints.remove": (_, e) => m.endpoints.remove(other, e),
      "endpoints.pause": (_, e) => m.endpoints.pause(other, e),
      "endpoints.resume": (_, e) => m.endpoints.resume(other, e),
      "endpoints.rotateSecret": (_, e) => m.endpoints.rotateSecret(other, e),
      "endpoints.sendTest": (_, e) => m.endpoints.sendTest(other, e),
      "destinations.list": (_, e) => m.destinations.list(other, e, FIRST_PAGE),
      "destinations.create": (_, e) => m.destinations.create(other, e, target),
      "destinations.get": (_, __, d) => m.destinations.get(other, d),
      "destinations.update": (_, __, d) => m.destinations.update(other, d, target),
      "destinations.remove": (_, __, d) => m.destinations.remove(other, d),
      "destinations.pause": (_, __, d) => m.destinations.pause(other, d),
      "destinations.resume": (_, __, d) => m.destinations.resume(other, d),
      "destinations.rotateSecret": (_, __, d) => m.destinations.rotateSecret(other, d),
      "replays.toAll": (_, __, ___, v) => m.replays.toAll(other, v),
      "replays.toOne": (_, __, d, v) => m.replays.toOne(other, v, d),
    };
    for (const [name, call] of Object.entries(calls)) {
      const foreign = await call(projectId, endpointId, id, event.id).then(String, String);
      const unknown = await call("prj_x", "ep_x", "dst_x", "evt_x").then(String, String);
      expect(foreign, name).toBe(unknown);
      expect(foreign, name).toContain("not found");
    }
    expect(await m.destinations.get(actor, id)).toEqual(destination);
  });
});
