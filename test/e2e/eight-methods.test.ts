import { createHmac } from "node:crypto";
import { SignJWT } from "jose";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Client } from "../../src/client/client.ts";
import type { EndpointCreate } from "../../src/client/types.ts";
import { ApiError } from "../../src/client/api-error.ts";
import { makeCheckedClient } from "../support/checked-client.ts";
import { startApiRelay, type ApiRelay } from "../support/api-relay.ts";
import { startSwitchedProxy, type SwitchedProxy } from "../support/api-switch.ts";
import { reservePort } from "../../src/app/reserve-port.ts";
import { waitFor } from "../support/wait-for.ts";

type Headers = Record<string, string>;
interface Attempt {
  readonly url: string;
  readonly body: string;
  readonly secret: string;
}
interface MethodCase {
  readonly create: EndpointCreate;
  readonly contentType?: string;
  readonly body: string;
  /** Returns the headers of a genuine request under this secret. */
  sign(attempt: Attempt): Headers | Promise<Headers>;
  /** A request that must be refused, its status and what the reason says. */
  readonly forged: {
    sign(attempt: Attempt): Headers | Promise<Headers>;
    readonly status: number;
    readonly error: RegExp;
  } | null;
  readonly rotates: boolean;
  readonly testable: boolean;
}

const SECRET = "a-secret-of-the-provider-0123456789";
const JSON_BODY = '{"id":1,"text":"ünïcode"}';
const base = { provider: "custom", name: "Case" } as const;

function twilioSignature(url: string, form: string, secret: string): string {
  const pairs = [...new URLSearchParams(form)].toSorted(([a], [b]) => (a < b ? -1 : 1));
  const text = url + pairs.map(([name, value]) => name + value).join("");
  return createHmac("sha1", secret).update(text).digest("base64");
}

async function jwt(secret: string, subject = "provider"): Promise<Headers> {
  const token = await new SignJWT({ sub: subject })
    .setProtectedHeader({ alg: "HS256" })
    .setIssuedAt()
    .setExpirationTime("2m")
    .sign(Buffer.from(secret));
  return { authorization: `Bearer ${token}` };
}

const hmac = (algorithm: string, { body, secret }: Attempt) =>
  createHmac(algorithm, secret).update(body).digest("hex");
const basic = (user: string, password: string) => ({
  authorization: `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`,
});
const otherSecret = (attempt: Attempt): Attempt => ({ ...attempt, secret: "not-the-secret" });

function withForgery(given: Omit<MethodCase, "forged"> & { readonly error: RegExp }): MethodCase {
  const { error, ...rest } = given;
  return {
    ...rest,
    forged: { sign: (attempt) => given.sign(otherSecret(attempt)), status: 401, error },
  };
}

const CASES: Readonly<Record<string, MethodCase>> = {
  hmac_sha256: withForgery({
    create: {
      ...base,
      secret: SECRET,
      verification_method: "hmac_sha256",
      verification_config: { header: "X-Signature", prefix: "v0=" },
    },
    body: JSON_BODY,
    sign: (attempt) => ({ "x-signature": `v0=${hmac("sha256", attempt)}` }),
    error: /X-Signature does not match/i,
    rotates: true,
    testable: true,
  }),
  hmac_sha1: withForgery({
    create: {
      ...base,
      secret: SECRET,
      verification_method: "hmac_sha1",
      verification_config: { header: "X-Sig" },
    },
    body: JSON_BODY,
    sign: (attempt) => ({ "x-sig": hmac("sha1", attempt) }),
    error: /X-Sig does not match/i,
    rotates: true,
    testable: true,
  }),
  twilio_signature: withForgery({
    create: { name: "Twilio", provider: "twilio", secret: SECRET },
    contentType: "application/x-www-form-urlencoded",
    body: "MessageSid=SM1&Body=hello+w%C3%B6rld&From=%2B1555",
    sign: ({ url, body, secret }) => ({
      "x-twilio-signature": twilioSignature(url, body, secret),
    }),
    error: /X-Twilio-Signature/,
    rotates: false,
    testable: false,
  }),
  bearer_token: withForgery({
    create: { ...base, secret: SECRET, verification_method: "bearer_token" },
    body: JSON_BODY,
    sign: ({ secret }) => ({ authorization: `Bearer ${secret}` }),
    error: /Authorization/,
    rotates: true,
    testable: true,
  }),
  basic_auth: withForgery({
    create: {
      ...base,
      secret: SECRET,
      verification_method: "basic_auth",
      verification_config: { username: "provider" },
    },
    body: JSON_BODY,
    sign: ({ secret }) => basic("provider", secret),
    error: /user ?name|password|Authorization/i,
    rotates: true,
    testable: true,
  }),
  jwt: withForgery({
    create: {
      ...base,
      secret: "k".repeat(48),
      verification_method: "jwt",
      verification_config: { algorithms: ["HS256"] },
    },
    body: JSON_BODY,
    sign: ({ secret }) => jwt(secret.padEnd(48, "x")),
    error: /signature/i,
    rotates: true,
    testable: false,
  }),
  ip_allowlist: {
    create: {
      ...base,
      verification_method: "ip_allowlist",
      verification_config: { allowed_ips: ["203.0.113.0/24", "2001:db8::/32"] },
    },
    body: JSON_BODY,
    // This suite's relay trusts a proxy on loopback.
    sign: () => ({ "x-forwarded-for": "203.0.113.77" }),
    forged: {
      sign: () => ({ "x-forwarded-for": "198.51.100.1" }),
      status: 403,
      error: /198\.51\.100\.1.*allowed_ips|allowed_ips.*198\.51\.100\.1/,
    },
    rotates: false,
    testable: false,
  },
  none: {
    create: { ...base, verification_method: "none" },
    body: JSON_BODY,
    sign: () => ({}),
    forged: null,
    rotates: false,
    testable: true,
  },
};

describe("the eight verification methods through the whole service", () => {
  let relay: ApiRelay;
  let wayToIngest: SwitchedProxy;
  let client: Client;
  let projectId: string;

  beforeAll(async () => {
    const port = await reservePort("127.0.0.1");
    wayToIngest = await startSwitchedProxy(port);
    relay = await startApiRelay({
      RELAY_INGEST_PORT: String(port),
      RELAY_PUBLIC_INGEST_URL: `http://127.0.0.1:${port}`,
      RELAY_TEST_INGEST_URL: `http://127.0.0.1:${wayToIngest.port}`,
      RELAY_TRUSTED_PROXIES: "127.0.0.0/8",
    });
    const { key } = await relay.newKey(["read", "write"], null);
    client = makeCheckedClient({ baseUrl: relay.apiUrl, apiKey: key });
    projectId = (await client.projects.create({ name: "Methods" })).id;
  });
  afterAll(async () => {
    await relay[Symbol.asyncDispose]();
    await wayToIngest[Symbol.asyncDispose]();
  });

  async function post(url: string, { body, contentType }: MethodCase, headers: Headers) {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": contentType ?? "application/json", ...headers },
      body,
    });
    const answer = (await response.json()) as {
      readonly error?: { readonly code: string; readonly message: string };
    };
    return { status: response.status, eventId: response.headers.get("x-relay-event-id"), answer };
  }

  /** Returns the event as the list shows it, and its detail with the payload. */
  async function recorded(endpointId: string, eventId: string | null) {
    const listed = await waitFor("the event in the list", async () => {
      const { data } = await client.events.search({ endpoint_id: endpointId, limit: 100 });
      return data.find((event) => event.id === eventId);
    });
    return { listed, detail: await client.events.get(String(eventId)) };
  }

  for (const [method, given] of Object.entries(CASES)) {
    it(`${method}: a genuine request is 200 and recorded as valid`, async () => {
      const endpoint = await client.endpoints.create(projectId, given.create);
      expect(endpoint.verification_method).toBe(method);
      const secret = given.create.secret ?? "";
      const sent = { url: endpoint.url, body: given.body, secret };
      const { status, eventId, answer } = await post(endpoint.url, given, await given.sign(sent));
      expect(status, JSON.stringify(answer)).toBe(200);
      const { listed, detail } = await recorded(endpoint.id, eventId);
      expect(listed).toMatchObject({ signature_valid: true, verification_error: null });
      expect(detail.payload).toBe(given.body);
    });

    const { forged } = given;
    if (forged !== null)
      it(`${method}: a forged request is ${forged.status}, recorded with the reason that it was told`, async () => {
        const endpoint = await client.endpoints.create(projectId, given.create);
        const sent = { url: endpoint.url, body: given.body, secret: given.create.secret ?? "" };
        const { status, eventId, answer } = await post(
          endpoint.url,
          given,
          await forged.sign(sent),
        );
        expect(status).toBe(forged.status);
        expect(answer.error?.message).toMatch(forged.error);
        const { listed, detail } = await recorded(endpoint.id, eventId);
        expect(listed).toMatchObject({
          signature_valid: false,
          verification_error: answer.error?.message,
        });
        expect(detail.attempts).toEqual([]);
        expect(JSON.stringify({ answer, detail })).not.toContain(sent.secret || "\u0000");
      });

    if (given.rotates)
      it(`${method}: a rotated secret is effective long before the time to live, and the old one is refused`, async () => {
        const endpoint = await client.endpoints.create(projectId, given.create);
        const sent = { url: endpoint.url, body: given.body, secret: given.create.secret ?? "" };
        expect((await post(endpoint.url, given, await given.sign(sent))).status).toBe(200);
        const { secret } = await client.endpoints.rotateSecret(endpoint.id);
        await waitFor(
          "the new secret to be taken",
          async () => {
            const headers = await given.sign({ ...sent, secret });
            return (await post(endpoint.url, given, headers)).status === 200;
          },
          15_000,
          5,
        );
        const old = await post(endpoint.url, given, await given.sign(sent));
        expect(old.status).toBe(401);
        const { listed } = await recorded(endpoint.id, old.eventId);
        expect(listed.signature_valid).toBe(false);
      });
    else
      it(`${method}: rotation is refused with 400, and nothing changes`, async () => {
        const endpoint = await client.endpoints.create(projectId, given.create);
        await expect(client.endpoints.rotateSecret(endpoint.id)).rejects.toMatchObject({
          status: 400,
          code: "rotation_not_supported",
        });
        const sent = { url: endpoint.url, body: given.body, secret: given.create.secret ?? "" };
        expect((await post(endpoint.url, given, await given.sign(sent))).status).toBe(200);
      });

    if (given.testable)
      it(`${method}: the test operation is accepted and recorded`, async () => {
        const endpoint = await client.endpoints.create(projectId, given.create);
        const result = await client.endpoints.test(endpoint.id);
        expect(result).toMatchObject({ accepted: true, status: 200, error: null });
        expect(result.url).toBe(
          endpoint.url.replace(relay.ingestUrl, `http://127.0.0.1:${wayToIngest.port}`),
        );
        const { listed } = await recorded(endpoint.id, result.event_id);
        expect(listed.signature_valid).toBe(true);
      });
    else
      it(`${method}: the test operation is refused with 400 that says what to do instead`, async () => {
        const endpoint = await client.endpoints.create(projectId, given.create);
        await expect(client.endpoints.test(endpoint.id)).rejects.toMatchObject({
          status: 400,
          code: "endpoint_not_testable",
          message: expect.stringMatching(/real event/),
        });
      });
  }

  const PROVIDERS = ["stripe", "github", "shopify", "linear"] as const;
  for (const provider of PROVIDERS)
    it(`the test operation is accepted by a ${provider} endpoint`, async () => {
      const endpoint = await client.endpoints.create(projectId, {
        name: provider,
        provider,
        secret: SECRET,
      });
      expect(await client.endpoints.test(endpoint.id)).toMatchObject({ accepted: true });
    });

  it("the test operation tells what is missing in the ingest's own words", async () => {
    const endpoint = await client.endpoints.create(projectId, {
      ...base,
      secret: SECRET,
      verification_method: "hmac_sha256",
    });
    const result = await client.endpoints.test(endpoint.id);
    expect(result).toMatchObject({ accepted: false, status: 401, event_id: null });
    expect(result.error).toMatch(/verification_config\.header/);
  });

  it("the test operation is 404 for an unknown endpoint, 409 while paused, 503 when the ingest is out of reach", async () => {
    const failure = async (id: string) =>
      client.endpoints.test(id).then(
        () => null,
        (error: unknown) => (error instanceof ApiError ? [error.status, error.code] : error),
      );
    const endpoint = await client.endpoints.create(projectId, CASES["none"]!.create);
    expect(await failure("ep_01JD5Z8A4V00000000000000ZZ")).toEqual([404, "not_found"]);
    await client.endpoints.pause(endpoint.id);
    expect(await failure(endpoint.id)).toEqual([409, "endpoint_paused"]);
    await client.endpoints.resume(endpoint.id);
    wayToIngest.cut();
    expect(await failure(endpoint.id)).toEqual([503, "ingest_unreachable"]);
    wayToIngest.mend();
    expect(await client.endpoints.test(endpoint.id)).toMatchObject({ accepted: true });
  });

  it("a secret without its settings fails closed and names the setting, for every method that needs one", async () => {
    const needs: readonly (readonly [EndpointCreate, RegExp])[] = [
      [
        { ...base, secret: SECRET, verification_method: "hmac_sha1" },
        /verification_config\.header/,
      ],
      [
        { ...base, secret: SECRET, verification_method: "basic_auth" },
        /verification_config\.username/,
      ],
      [{ ...base, secret: SECRET, verification_method: "jwt" }, /verification_config\.algorithms/],
      [{ ...base, verification_method: "ip_allowlist" }, /verification_config\.allowed_ips/],
      [{ ...base, verification_method: "bearer_token" }, /secret/],
    ];
    for (const [create, error] of needs) {
      const endpoint = await client.endpoints.create(projectId, create);
      const { status, eventId } = await post(endpoint.url, CASES["none"]!, {});
      expect(status).toBe(create.verification_method === "ip_allowlist" ? 403 : 401);
      const { listed } = await recorded(endpoint.id, eventId);
      expect(listed.signature_valid).toBe(false);
      expect(listed.verification_error).toMatch(error);
    }
  });
});
