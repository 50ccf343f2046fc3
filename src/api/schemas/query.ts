import { z } from "@hono/zod-openapi";
import { ATTEMPT_STATUSES, PROVIDERS } from "../../domain/enums.ts";
import { parseDateTime } from "../date-time.ts";
import { EXAMPLE_TIME, exampleId, text } from "./common.ts";

const DEFAULT_PAGE_LIMIT = 50;
const MAX_PAGE_LIMIT = 100;

/** The schema of an integer from 1. Without a maximum, values beyond the largest safe integer are read as that one. */
function integer(maximum: number | null, defaultValue: number, description: string) {
  return z
    .string()
    .optional()
    .transform((value, context) => {
      if (value === undefined) return defaultValue;
      const number = /^[1-9]\d*$/.test(value) ? Number(value) : Number.NaN;
      if (number <= (maximum ?? Number.POSITIVE_INFINITY))
        return Math.min(number, Number.MAX_SAFE_INTEGER);
      context.addIssue({
        code: "custom",
        message:
          maximum === null
            ? "must be an integer from 1."
            : `must be an integer from 1 to ${maximum}.`,
      });
      return z.NEVER;
    })
    .openapi({
      type: "integer",
      minimum: 1,
      ...(maximum === null ? {} : { maximum }),
      default: defaultValue,
      description,
    });
}

function dateTime(description: string) {
  return z
    .string()
    .transform((value, context) => {
      const timeMs = parseDateTime(value);
      if (timeMs !== null) return timeMs;
      context.addIssue({
        code: "custom",
        message: `must be an RFC 3339 date-time such as ${EXAMPLE_TIME} (write the + of an offset as %2B).`,
      });
      return z.NEVER;
    })
    .optional()
    .openapi({ type: "string", format: "date-time", description, example: EXAMPLE_TIME });
}

const flag = z.enum(["true", "false"]);

const paging = {
  page: integer(null, 1, "From 1. A page past the end is empty, never an error."),
  limit: integer(MAX_PAGE_LIMIT, DEFAULT_PAGE_LIMIT, "Items per page."),
};

export const PagingQuery = z.strictObject(paging);

const filters = {
  endpoint_id: text(1, 256)
    .optional()
    .openapi({ example: exampleId("endpoint") }),
  provider: z.enum(PROVIDERS).optional(),
  signature_valid: flag.optional().openapi({ description: "`false`: rejected webhooks only." }),
  from: dateTime("Received at this time or later."),
  to: dateTime("Received before this time."),
  q: text(1, 256)
    .refine((value) => value.trim() !== "", "must hold more than white space.")
    .optional()
    .openapi({
      pattern: "^[^\\u0000]*[^\\s\\u0000][^\\u0000]*$",
      description:
        "Full text: every white-space separated term occurs, ignoring ASCII case, in the payload or in a header line.",
      example: "invoice.paid",
    }),
  field: text(1, 256).optional().openapi({
    description:
      "Exact match on a payload field, with `value`: a dotted path (`data.object.id`, `items.0.sku`; form fields are top-level paths), or `headers.<name>` (`payload.headers.x` for a payload key of that name). A dot inside a key or a form field's name is written `\\.`. The first 2,000 leaves of a payload are searchable.",
    example: "data.object.id",
  }),
  value: text(0, 512).optional().openapi({
    description:
      "What `field` equals exactly: numbers as written, booleans and null as JSON text. One without the other is 400.",
    example: "in_1Pq2",
  }),
  attempt_status: z
    .enum(ATTEMPT_STATUSES)
    .optional()
    .openapi({ description: "Events with at least one delivery attempt of this status." }),
  destination_id: text(1, 256)
    .optional()
    .openapi({
      description:
        "Events with at least one delivery attempt to this destination; together with `attempt_status`, at least one that has both.",
      example: exampleId("destination"),
    }),
};

type Pair = { readonly field?: string | undefined; readonly value?: string | undefined };

function checkPair(query: Pair, context: z.RefinementCtx): void {
  if ((query.field === undefined) === (query.value === undefined)) return;
  const missing = query.field === undefined ? "field" : "value";
  context.addIssue({
    code: "custom",
    path: [missing],
    message: "field and value go together.",
  });
}

export const FacetsQuery = z.strictObject(filters).superRefine(checkPair);

export const EventsQuery = z
  .strictObject({
    ...paging,
    ...filters,
    delivery_summary: flag.optional().openapi({
      description:
        "`true` fills `delivery_summary` of each item; otherwise it is left out. It may still be null for an event of the last seconds that is being fanned out.",
    }),
  })
  .superRefine(checkPair);
