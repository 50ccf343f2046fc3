import { RelayError } from "../domain/errors.ts";
import type { HeaderList } from "../domain/event.ts";
import { ID_PREFIXES } from "../domain/ids.ts";
import { findUnfitSetting } from "../signing/header-limits.ts";
import { signSample } from "../signing/sign-sample.ts";
import { makeTestBody, whyNotTestable } from "../signing/test-webhook.ts";
import { noteWrite } from "./audit.ts";
import { ingestUrlOf } from "./ingest-url.ts";
import type { Actor, TestWebhookResult } from "./management.ts";
import { found } from "./not-found.ts";
import type { ManagementOptions, ManagementPorts, TestAnswer } from "./ports.ts";
import { openEndpoint } from "./sealed-secrets.ts";

type TestPorts = Pick<ManagementPorts, "store" | "box" | "postTest" | "now" | "newId">;
type TestOptions = Pick<ManagementOptions, "publicIngestUrl" | "testIngestUrl">;

/**
 * Signs a sample payload with the endpoint's own configuration and posts it to its ingest URL, like any provider. The
 * public URL is what is signed; `testIngestUrl` only decides where the request goes.
 */
export function makeSendTest(
  { store, box, postTest, now, newId }: TestPorts,
  options: TestOptions,
): (actor: Actor, id: string) => Promise<TestWebhookResult> {
  return async (actor, id) => {
    const row = found(await store.endpoints.find(actor.orgId, id), "endpoint");
    const reason = whyNotTestable(row.verificationMethod);
    if (reason !== null) throw new RelayError("endpoint_not_testable", reason);
    if (row.status === "paused")
      throw new RelayError(
        "endpoint_paused",
        "The endpoint is paused, so the test would be rejected: resume it first",
      );

    const settings = openEndpoint(box, row);
    // Such settings are refused when written, but earlier versions stored them.
    const unfit = findUnfitSetting(settings);
    if (unfit !== null)
      throw new RelayError(
        "endpoint_not_testable",
        `The endpoint's ${unfit.field} ${unfit.message}: no request can carry it, so that the endpoint cannot be tested before it is changed`,
      );
    const nowMs = now();
    const sampleId = `test_${newId("event", nowMs).slice(ID_PREFIXES.event.length)}`;
    const body = makeTestBody(settings, sampleId, nowMs);
    const signature = signSample({
      ...settings,
      body,
      nowMs,
      url: ingestUrlOf(options.publicIngestUrl, row.token),
      httpMethod: "POST",
      id: sampleId,
    });
    const url = ingestUrlOf(options.testIngestUrl, row.token);
    await noteWrite(store, actor, "endpoint.test", id, nowMs);
    const headers = withContentType(signature);
    return resultOf(await postTest({ url, method: "POST", headers, body }), url);
  };
}

/** @throws {RelayError} `ingest_unreachable` */
function resultOf(answer: TestAnswer, url: string): TestWebhookResult {
  if (answer.kind === "unreachable")
    throw new RelayError(
      "ingest_unreachable",
      `The ingest service could not be reached at ${url}: ${answer.reason}`,
    );
  const { status } = answer;
  // Any website answers 2xx: only the relay names the event.
  const eventId = isSuccess(status) ? answer.eventId : null;
  const accepted = eventId !== null;
  return { accepted, status, eventId, error: accepted ? null : errorIn(answer), url };
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

/** Adds a content type unless the signature itself is in that header. */
function withContentType(headers: HeaderList): HeaderList {
  const hasOne = headers.some(([name]) => name.toLowerCase() === "content-type");
  return hasOne ? headers : [["content-type", "application/json"], ...headers];
}

/** Returns the message of the error envelope, the ingest service's own words, or says that something else answered. */
function errorIn({ status, body }: { readonly status: number; readonly body: string }): string {
  try {
    const parsed = JSON.parse(body) as { readonly error?: { readonly message?: unknown } } | null;
    const message = parsed?.error?.message;
    if (typeof message === "string") return message;
  } catch {
    // Not ours: something else answered.
  }
  return isSuccess(status)
    ? `The ingest URL answered ${status} without the id of an event: does something other than the relay answer there, or does a proxy remove x-relay-event-id?`
    : `The ingest URL answered ${status} without an error message: does a proxy stand in front of it?`;
}
