import { UNAVAILABLE } from "../../domain/destination.ts";
import type { Lookup } from "../../domain/destination.ts";
import type { EndpointConfig } from "../../domain/endpoint.ts";
import type { NewRecord } from "../../domain/log.ts";
import type { Verdict, VerificationRequest } from "../../domain/verification.ts";
import { clientAddressOf } from "../../signing/client-address.ts";
import type { ByteSlab } from "../../domain/byte-slab.ts";
import { encodeEvent } from "../log/event-codec.ts";
import type { Admission, Share } from "./admission.ts";
import type { Waiter } from "./append-batcher.ts";
import { contentTypeOf } from "./request-heads.ts";
import { ACCEPTED, DISABLED, outcomeOf, PAUSED, rejection } from "./finding.ts";
import type { Finding } from "./finding.ts";
import type { IngestOutcome, UnavailableCause } from "./outcome.ts";
import type { IngestOptions, IngestPorts } from "./ports.ts";
import { redactHeaders } from "./redact.ts";
import type { RedactionRule } from "./redact.ts";
import type { Reception, RequestHead, SendAnswer } from "../../domain/incoming-request.ts";
import { tokenIn } from "../../domain/ingest-path.ts";

const NO_BODY = new Uint8Array(0);
/** When a body took longer to come, its endpoint is looked up again: over a slow line it takes minutes, and changes are in effect within one. */
const LOOK_AGAIN_AFTER_MS = 1_000;

/** What all requests of a process share. */
export interface WebhookContext {
  readonly ports: IngestPorts;
  readonly options: IngestOptions;
  readonly admission: Admission;
  /** Where records are encoded. */
  readonly slab: ByteSlab;
  readonly enqueue: (record: NewRecord, waiter: Waiter) => void;
  /** The wall clock without its small steps back. */
  readonly receivedAtMs: () => number;
  /** Sends the answer and counts it. `startedAtMs` is monotonic. */
  readonly answer: (sendAnswer: SendAnswer, outcome: IngestOutcome, startedAtMs: number) => void;
  readonly redactionOf: (endpoint: EndpointConfig) => RedactionRule;
}

/** One request at a known endpoint, from its admission to its answer. */
export class IncomingWebhook implements Reception, Waiter {
  readonly #context: WebhookContext;
  #endpoint: EndpointConfig;
  readonly #head: RequestHead;
  readonly #sendAnswer: SendAnswer;
  readonly #share: Share;
  readonly #startedAtMs: number;
  #bodyBytes = 0;
  #heldBytes = 0;
  #answered = false;
  /** What to answer once the record is durable. */
  #outcome: IngestOutcome | null = null;

  constructor(
    context: WebhookContext,
    endpoint: EndpointConfig,
    head: RequestHead,
    sendAnswer: SendAnswer,
    share: Share,
    startedAtMs: number,
  ) {
    this.#context = context;
    this.#endpoint = endpoint;
    this.#head = head;
    this.#sendAnswer = sendAnswer;
    this.#share = share;
    this.#startedAtMs = startedAtMs;
  }

  hold(sizeBytes: number): boolean {
    const total = this.#bodyBytes + sizeBytes;
    if (total > this.#context.options.maxPayloadBytes) {
      this.rejectTooLarge(this.#head.declaredBytes ?? total);
      return false;
    }
    this.#bodyBytes = total;
    return this.reserve(sizeBytes);
  }

  /** Asks for room for a part of the head, or of the body; when it returns false, the answer has been 503. */
  reserve(sizeBytes: number): boolean {
    if (!this.#context.admission.grow(this.#share, sizeBytes)) {
      this.#refuse("overloaded");
      return false;
    }
    this.#heldBytes += sizeBytes;
    return true;
  }

  abandon(): void {
    this.#answered = true;
    this.release();
  }

  complete(body: Uint8Array, isLent = false): void {
    const tookMs = this.#context.ports.clock.monotonic() - this.#startedAtMs;
    this.#orRefuse(() => {
      if (tookMs < LOOK_AGAIN_AFTER_MS) this.#decide(body, isLent);
      else this.#lookAgain(body, isLent);
    });
  }

  /** Records the event without its body, which is not read to its end. */
  rejectTooLarge(sizeBytes: number): void {
    const error = `payload too large: ${sizeBytes} bytes, at most ${this.#context.options.maxPayloadBytes} are taken (RELAY_MAX_PAYLOAD_BYTES)`;
    const finding: Finding = { kind: "payload_too_large", reason: "payload_too_large", error };
    this.#reject(finding, sizeBytes);
  }

  /** Records the event without its body, which is not read. */
  rejectRateLimited(retryAfterSeconds: number): void {
    const error = `rate limited: more than ${this.#context.options.rateLimitPerSecond} requests per second at this endpoint (RELAY_INGEST_RATE_LIMIT)`;
    const finding: Finding = { kind: "rate_limited", reason: "rate_limited", error };
    this.#reject(finding, this.#head.declaredBytes ?? 0, retryAfterSeconds);
  }

  settle(durable: boolean): void {
    if (durable && this.#outcome !== null) this.#answer(this.#outcome);
    else this.#answer({ kind: "unavailable", cause: "log" });
  }

  release(): void {
    this.#context.admission.leave(this.#endpoint.id, this.#share, this.#heldBytes);
  }

  #lookAgain(body: Uint8Array, isLent: boolean): void {
    const lookup = this.#context.ports.endpointByToken(tokenIn(this.#head.path));
    if (!(lookup instanceof Promise)) return this.#decideAnew(lookup, body, isLent);
    const kept = isLent ? Buffer.from(body) : body;
    void lookup
      .catch(() => UNAVAILABLE)
      .then((found) => this.#orRefuse(() => this.#decideAnew(found, kept, false)));
  }

  #decideAnew(lookup: Lookup<EndpointConfig>, body: Uint8Array, isLent: boolean): void {
    if (lookup.kind === "missing") {
      this.#answer({ kind: "not_found" });
      this.release();
      return;
    }
    // Without the store, what was known of it goes on to serve.
    if (lookup.kind === "found") this.#endpoint = lookup.value;
    this.#decide(body, isLent);
  }

  /** Runs a step; an unforeseen error costs only this request. */
  #orRefuse(step: () => void): void {
    try {
      step();
    } catch (error) {
      this.#context.ports.logger.error({ err: error }, "ingest.webhook_not_recorded");
      this.#refuse("internal");
    }
  }

  #decide(body: Uint8Array, isLent: boolean): void {
    const receivedAtMs = this.#context.receivedAtMs();
    if (this.#endpoint.status !== "active") {
      const finding = this.#endpoint.status === "paused" ? PAUSED : DISABLED;
      this.#record(finding, receivedAtMs, body, body.length);
      return;
    }
    let request = this.#verificationRequest(body);
    if (isLent && !this.#context.ports.isInline(request))
      request = this.#verificationRequest(Buffer.from(body));
    const verdict = this.#verify(request);
    if (verdict instanceof Promise) this.#concludeInTime(verdict, receivedAtMs, request.body);
    else this.#conclude(verdict, receivedAtMs, body);
  }

  #reject(finding: Finding, sizeBytes: number, retryAfterSeconds?: number): void {
    const atMs = this.#context.receivedAtMs();
    this.#orRefuse(() => this.#record(finding, atMs, null, sizeBytes, retryAfterSeconds));
  }

  #verificationRequest(body: Uint8Array): VerificationRequest {
    const { ports, options } = this.#context;
    const endpoint = this.#endpoint;
    const { path, query, method, headers, remoteAddress } = this.#head;
    return {
      provider: endpoint.provider,
      method: endpoint.method,
      methodIsExplicit: endpoint.methodIsExplicit,
      secret: endpoint.secret,
      config: endpoint.config,
      url: options.publicBaseUrl + path + (query === null ? "" : `?${query}`),
      httpMethod: method,
      headers,
      body,
      // Not the event's time, which may stand still for a while: timestamps would seem older than they are.
      nowMs: ports.clock.now(),
      remoteAddress,
      trustedProxies: options.trustedProxies,
    };
  }

  #verify(request: VerificationRequest): Verdict | Promise<Verdict> {
    try {
      return this.#context.ports.verify(request);
    } catch (error) {
      return this.#verifierFailed(error);
    }
  }

  #concludeInTime(verdict: Promise<Verdict>, receivedAtMs: number, body: Uint8Array): void {
    const { clock } = this.#context.ports;
    let late = false;
    const cancelDeadline = clock.schedule(this.#context.options.deadlineMs, () => {
      late = true;
      this.#refuse("verification");
    });
    void verdict
      .catch((error: unknown) => this.#verifierFailed(error))
      .then((decided) => {
        cancelDeadline();
        if (!late) this.#orRefuse(() => this.#conclude(decided, receivedAtMs, body));
      });
  }

  #verifierFailed(error: unknown): "unavailable" {
    const endpointId = this.#endpoint.id;
    this.#context.ports.logger.error({ err: error, endpointId }, "verify.failed");
    return "unavailable";
  }

  #conclude(verdict: Verdict, receivedAtMs: number, body: Uint8Array): void {
    if (verdict === "unavailable") {
      this.#refuse("verification");
      return;
    }
    const finding = verdict.valid ? ACCEPTED : rejection(verdict);
    this.#record(finding, receivedAtMs, body, body.length);
  }

  #record(
    finding: Finding,
    receivedAtMs: number,
    body: Uint8Array | null,
    payloadSizeBytes: number,
    retryAfterSeconds = 0,
  ): void {
    const { ports, enqueue, redactionOf } = this.#context;
    const endpoint = this.#endpoint;
    const head = this.#head;
    const id = ports.newEventId(receivedAtMs);
    const value = encodeEvent(
      {
        id,
        orgId: endpoint.orgId,
        endpointId: endpoint.id,
        provider: endpoint.provider,
        receivedAtMs,
        method: head.method,
        path: head.path,
        query: head.query ?? "",
        headers: redactHeaders(head.headers, redactionOf(endpoint)),
        contentType: contentTypeOf(head.headers),
        sourceIp: this.#sourceIp(),
        signatureValid: finding.kind === "accepted",
        verificationError: finding.error,
        reason: finding.reason,
        bodyStored: body !== null,
        payloadSizeBytes,
        body: body ?? NO_BODY,
      },
      this.#context.slab,
    );
    this.#outcome = outcomeOf(finding, id, retryAfterSeconds);
    enqueue({ topic: "events", key: endpoint.id, value }, this);
  }

  #sourceIp(): string {
    const { remoteAddress, headers } = this.#head;
    const { trustedProxies } = this.#context.options;
    if (trustedProxies.length === 0) return remoteAddress;
    return clientAddressOf(remoteAddress, headers, trustedProxies) ?? remoteAddress;
  }

  /** Answers 503: nothing is recorded, nor will be. */
  #refuse(cause: UnavailableCause): void {
    this.#answer({ kind: "unavailable", cause });
    this.release();
  }

  #answer(outcome: IngestOutcome): void {
    if (this.#answered) return;
    this.#answered = true;
    this.#context.answer(this.#sendAnswer, outcome, this.#startedAtMs);
  }
}
