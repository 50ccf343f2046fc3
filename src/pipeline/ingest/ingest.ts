import type { Lookup } from "../../domain/destination.ts";
import { ByteSlab } from "../../domain/byte-slab.ts";
import type { EndpointConfig } from "../../domain/endpoint.ts";
import { makeAdmission } from "./admission.ts";
import type { Admission } from "./admission.ts";
import { encodeAnswer, makeTimeFormatter } from "./answer.ts";
import { makeAppendBatcher } from "./append-batcher.ts";
import { makeAppendWatch } from "./append-watch.ts";
import { allowedMethods, isAllowed } from "./methods.ts";
import type { IngestOutcome, UnavailableCause } from "./outcome.ts";
import type { IngestOptions, IngestPorts } from "./ports.ts";
import { makeRateLimiter } from "./rate-limiter.ts";
import { IncomingWebhook } from "./incoming-webhook.ts";
import type { WebhookContext } from "./incoming-webhook.ts";
import { makeRedactionRule } from "./redact.ts";
import type { RedactionRule } from "./redact.ts";
import { excessHeadBytes } from "./request-heads.ts";
import type { Reception, RequestHead, SendAnswer } from "../../domain/incoming-request.ts";
import { tokenIn } from "../../domain/ingest-path.ts";

export interface Ingest {
  /**
   * Takes in one request by its head and answers through `sendAnswer`, exactly once unless the body is abandoned. Returns null when
   * the body is not needed; otherwise hand it to the reception, which may answer before it has it all. Returns a promise when
   * the endpoint must be looked up first.
   */
  handle(head: RequestHead, sendAnswer: SendAnswer): Reception | null | Promise<Reception | null>;
  readonly inFlight: Admission["inFlight"];
}

/**
 * How long received times may stand still after the clock was set back. A clock set back by more was wrong before: waiting it
 * out would show new events in the future.
 */
const MAX_STANDSTILL_MS = 1_000;
/** Records of up to a quarter of it share a block. */
const RECORDS_BLOCK_BYTES = 512 * 1_024;

/**
 * Makes the ingest stage, through which a request takes this path:
 *
 *   handle: token → endpoint → method → admission → rate limit → announced size
 *   IncomingWebhook: body (→ endpoint again, when it was slow) → status → signature → event record → batch → durable → answer
 *
 * On a configuration hit, and with an inline verifier, no promise is made before the batch.
 */
export function makeIngest(ports: IngestPorts, options: IngestOptions): Ingest {
  const { clock, metrics } = ports;
  const admission = makeAdmission({
    maxRequests: options.maxRequestsInFlight,
    maxBytes: options.maxBytesInFlight,
  });
  const limiter = makeRateLimiter(options.rateLimitPerSecond);
  const slab = new ByteSlab({ blockBytes: RECORDS_BLOCK_BYTES });
  const enqueue = makeAppendBatcher(
    {
      append: ports.append,
      clock,
      defer: ports.defer,
      appended: makeAppendWatch(ports),
      done: ({ value }) => slab.giveBack(value),
    },
    options.deadlineMs,
  );
  const redactionRules = new WeakMap<EndpointConfig, RedactionRule>();
  const formatTime = makeTimeFormatter();
  let lastReceivedAtMs = 0;
  const context: WebhookContext = {
    ports,
    options,
    admission,
    slab,
    enqueue,
    answer,
    // Event ids carry this time: it stands still until the wall clock has made up for a small step back.
    receivedAtMs() {
      const nowMs = clock.now();
      if (nowMs > lastReceivedAtMs || lastReceivedAtMs - nowMs > MAX_STANDSTILL_MS)
        lastReceivedAtMs = nowMs;
      return lastReceivedAtMs;
    },
    redactionOf(endpoint) {
      let rule = redactionRules.get(endpoint);
      if (rule === undefined) {
        rule = makeRedactionRule(endpoint);
        redactionRules.set(endpoint, rule);
      }
      return rule;
    },
  };

  function answer(sendAnswer: SendAnswer, outcome: IngestOutcome, startedAtMs: number): void {
    if (outcome.kind === "unavailable") metrics.refused(outcome.cause);
    metrics.answered(outcome.kind, (clock.monotonic() - startedAtMs) / 1_000);
    sendAnswer(encodeAnswer(outcome, formatTime(clock.now())));
  }

  /** Answers a request whose body is not needed. */
  function end(sendAnswer: SendAnswer, outcome: IngestOutcome, startedAtMs: number): null {
    answer(sendAnswer, outcome, startedAtMs);
    return null;
  }

  function refuse(sendAnswer: SendAnswer, cause: UnavailableCause, startedAtMs: number): null {
    return end(sendAnswer, { kind: "unavailable", cause }, startedAtMs);
  }

  function admit(
    lookup: Lookup<EndpointConfig>,
    head: RequestHead,
    sendAnswer: SendAnswer,
    startedAtMs: number,
  ): Reception | null {
    if (lookup.kind === "missing") return end(sendAnswer, { kind: "not_found" }, startedAtMs);
    if (lookup.kind === "unavailable") return refuse(sendAnswer, "configuration", startedAtMs);
    const endpoint = lookup.value;
    if (!isAllowed(head.method, endpoint)) {
      const allow = allowedMethods(endpoint);
      return end(sendAnswer, { kind: "method_not_allowed", allow }, startedAtMs);
    }
    const share = admission.enter(endpoint.id);
    if (share === null) return refuse(sendAnswer, "overloaded", startedAtMs);
    const webhook = new IncomingWebhook(context, endpoint, head, sendAnswer, share, startedAtMs);
    if (!webhook.reserve(excessHeadBytes(head))) return null;
    const waitSeconds = limiter.take(endpoint.id, startedAtMs);
    if (waitSeconds > 0) {
      webhook.rejectRateLimited(waitSeconds);
      return null;
    }
    if (head.declaredBytes !== null && head.declaredBytes > options.maxPayloadBytes) {
      webhook.rejectTooLarge(head.declaredBytes);
      return null;
    }
    return webhook;
  }

  return {
    inFlight: admission.inFlight,
    handle(head, sendAnswer) {
      const startedAtMs = clock.monotonic();
      const token = tokenIn(head.path);
      if (token === "" || token.includes("/"))
        return end(sendAnswer, { kind: "not_found" }, startedAtMs);
      const lookup = ports.endpointByToken(token);
      return lookup instanceof Promise
        ? lookup.then(
            (found) => admit(found, head, sendAnswer, startedAtMs),
            () => refuse(sendAnswer, "configuration", startedAtMs),
          )
        : admit(lookup, head, sendAnswer, startedAtMs);
    },
  };
}
