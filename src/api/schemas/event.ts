import { z } from "@hono/zod-openapi";
import { ATTEMPT_STATUSES, PROVIDERS } from "../../domain/enums.ts";
import {
  CUT_BODY_CHARACTERS,
  CUT_BODY_MARK,
  MAX_RESPONSE_BODY_TEXT,
  MAX_WHOLE_BODY_TEXT,
} from "../../domain/response-body.ts";
import {
  EXAMPLE_LATER,
  EXAMPLE_TIME,
  exampleId,
  id,
  nullableTimestamp,
  timestamp,
} from "./common.ts";

const summaryExample = { delivered: 1, failed: 0, pending: 0, total: 1 };
const eventExample = {
  id: exampleId("event"),
  endpoint_id: exampleId("endpoint"),
  org_id: exampleId("organization"),
  provider: "stripe",
  received_at: EXAMPLE_TIME,
  signature_valid: true,
  verification_error: null,
  payload_size_bytes: 25,
} as const;
const attemptExample = {
  id: exampleId("attempt"),
  event_id: exampleId("event"),
  destination_id: exampleId("destination"),
  endpoint_id: exampleId("endpoint"),
  org_id: exampleId("organization"),
  attempted_at: EXAMPLE_LATER,
  attempt_number: 1,
  receiver_url: "https://hooks.example.com/ledger",
  http_status: 200,
  response_body: "ok",
  latency_ms: 42,
  status: "delivered",
  next_retry_at: null,
} as const;

const count = z.number().int().openapi({ minimum: 0 });

const DeliverySummarySchema = z
  .object({ delivered: count, failed: count, pending: count, total: count })
  .openapi("DeliverySummary", {
    description:
      "Destinations the event was fanned out or replayed to, by their latest attempt that is not `rate_limited`: `delivered`, `failed` (it is `dead`), or else `pending`. Null for an event that was never fanned out.",
    example: summaryExample,
  });

/** A union, since `nullable()` of a named schema would lose its null in the document. */
const NullableSummary = z.union([DeliverySummarySchema, z.null()]);

const eventFields = {
  id: id("event"),
  endpoint_id: id("endpoint"),
  org_id: id("organization"),
  provider: z.enum(PROVIDERS),
  received_at: timestamp,
  signature_valid: z.boolean(),
  verification_error: z
    .string()
    .nullable()
    .openapi({ description: "Why the event was not accepted; null when it was." }),
  payload_size_bytes: count,
};

export const EventSchema = z
  .object({
    ...eventFields,
    delivery_summary: NullableSummary.optional(),
  })
  .openapi("Event", { example: { ...eventExample, delivery_summary: summaryExample } });
export type EventView = z.infer<typeof EventSchema>;

export const AttemptSchema = z
  .object({
    id: id("attempt"),
    event_id: id("event"),
    destination_id: id("destination"),
    endpoint_id: id("endpoint"),
    org_id: id("organization"),
    attempted_at: timestamp,
    attempt_number: z.number().int().openapi({
      minimum: 1,
      description:
        "Counts tries per event and destination, in order of time; a row that puts a try off has that try's number.",
    }),
    receiver_url: z
      .string()
      .openapi({ description: "Empty where the destination was deleted before the try." }),
    http_status: z
      .number()
      .int()
      .openapi({ description: "0 without a response; `response_body` then says why." }),
    response_body: z.string().openapi({
      description: `At most the first ${MAX_RESPONSE_BODY_TEXT}. Of an event's attempts, the newest are shown with up to ${MAX_WHOLE_BODY_TEXT} of this in all; in older ones it is cut after ${CUT_BODY_CHARACTERS} characters, and a last line \`${CUT_BODY_MARK}\` says so.`,
    }),
    latency_ms: z.number().openapi({ minimum: 0 }),
    status: z.enum(ATTEMPT_STATUSES).openapi({
      description:
        "`failed` and `timeout`: a retry follows at next_retry_at. `dead`: the last try failed, nothing follows. `rate_limited`: put off to next_retry_at without a request.",
    }),
    next_retry_at: nullableTimestamp,
  })
  .openapi("DeliveryAttempt", { example: attemptExample });
export type AttemptJson = z.infer<typeof AttemptSchema>;

export const EventDetailSchema = z
  .object({
    ...eventFields,
    method: z.string(),
    path: z.string(),
    query: z.string().openapi({ description: "Raw query string without `?`." }),
    headers: z
      .array(z.object({ name: z.string(), value: z.string() }))
      .openapi({ description: "In arrival order. Credentials are redacted." }),
    content_type: z.string().nullable(),
    source_ip: z.string(),
    payload: z
      .string()
      .openapi({ description: "The raw payload, encoded as payload_encoding says." }),
    payload_encoding: z.enum(["utf8", "base64"]).openapi({
      description: "`base64` when the bytes are not UTF-8. Either way the bytes are exact.",
    }),
    delivery_summary: NullableSummary,
    attempts: z.array(AttemptSchema).openapi({ description: "Oldest first." }),
  })
  .openapi("EventDetail", {
    example: {
      ...eventExample,
      method: "POST",
      path: "/in/Zk3w0q9XcV7bN1mT5yRa2g",
      query: "",
      headers: [
        { name: "Content-Type", value: "application/json" },
        { name: "Stripe-Signature", value: "t=1795166400,v1=5257a869e7" },
      ],
      content_type: "application/json",
      source_ip: "203.0.113.7",
      payload: '{"type":"invoice.paid"}\r\n',
      payload_encoding: "utf8",
      delivery_summary: summaryExample,
      attempts: [attemptExample],
    },
  });
export type EventDetailView = z.infer<typeof EventDetailSchema>;

export const FacetsSchema = z
  .object({
    total_events: count,
    by_provider: z.array(z.object({ value: z.enum(PROVIDERS), count })),
    by_signature_valid: z.array(z.object({ value: z.boolean(), count })),
    by_attempt_status: z.array(z.object({ value: z.enum(ATTEMPT_STATUSES), count })).openapi({
      description: "Attempts of the matching events. Zero counts are left out, largest first.",
    }),
  })
  .openapi("FacetCounts", {
    example: {
      total_events: 3,
      by_provider: [
        { value: "stripe", count: 2 },
        { value: "github", count: 1 },
      ],
      by_signature_valid: [
        { value: true, count: 2 },
        { value: false, count: 1 },
      ],
      by_attempt_status: [{ value: "delivered", count: 2 }],
    },
  });
export type FacetsView = z.infer<typeof FacetsSchema>;

export const ReplayAllSchema = z
  .object({
    event_id: id("event"),
    enqueued: z.array(z.object({ destination_id: id("destination") })),
  })
  .openapi("ReplayToAll", {
    example: {
      event_id: exampleId("event"),
      enqueued: [{ destination_id: exampleId("destination") }],
    },
  });

export const ReplayOneSchema = z
  .object({ event_id: id("event"), destination_id: id("destination") })
  .openapi("ReplayToOne", {
    example: { event_id: exampleId("event"), destination_id: exampleId("destination") },
  });
