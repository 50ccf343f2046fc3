import { z } from "@hono/zod-openapi";
import { ID_PREFIXES } from "../../domain/ids.ts";
import type { IdKind } from "../../domain/ids.ts";
import { isWithin } from "../../domain/searchable-leaf.ts";

const EXAMPLE_ULIDS = {
  project: "01JD5Z8A4V3MJ0Y6T1Q2W7X9KP",
  endpoint: "01JD5Z9B6Q8R2S4T6V8W0X1Y3Z",
  destination: "01JD5ZAC1D3F5G7H9J1K3M5N7P",
  event: "01JD5ZBD9EFGHJKMNPQRSTVWXY",
  attempt: "01JD5ZBDA0B1C2D3E4F5G6H7J8",
  organization: "01JD5Z7000000000000000AAAA",
  key: "01JD5Z7000000000000000BBBB",
} as const satisfies Record<IdKind, string>;

export const EXAMPLE_TIME = "2026-11-20T09:30:00.000Z";
export const EXAMPLE_LATER = "2026-11-20T09:30:30.000Z";

export function exampleId(kind: IdKind): string {
  return ID_PREFIXES[kind] + EXAMPLE_ULIDS[kind];
}

/** The schema of an id in an answer. */
export function id(kind: IdKind): z.ZodString {
  return z.string().openapi({
    pattern: `^${ID_PREFIXES[kind]}[0-7][0-9A-HJKMNP-TV-Z]{25}$`,
    example: exampleId(kind),
  });
}

export const timestamp = z.string().openapi({
  format: "date-time",
  pattern: "^\\d{4,}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}\\.\\d{3}Z$",
  description: "RFC 3339, UTC, with milliseconds.",
  example: EXAMPLE_TIME,
});

export const nullableTimestamp = z.string().nullable().openapi({
  format: "date-time",
  description: "RFC 3339, UTC, with milliseconds.",
});

/**
 * The schema of a text in a request. Lengths count characters (code points), as JSON Schema does; NUL is refused by `checkJson`.
 */
export function text(minLength: number, maxLength: number): z.ZodString {
  return z
    .string()
    .superRefine((value, context) => {
      const problem = lengthProblem(value, minLength, maxLength);
      if (problem !== null) context.addIssue({ code: "custom", message: problem });
    })
    .openapi({ minLength, maxLength, pattern: "^[^\\u0000]*$" });
}

function lengthProblem(value: string, minLength: number, maxLength: number): string | null {
  if (value.length < minLength)
    return minLength === 1 ? "must not be empty." : `must have at least ${minLength} characters.`;
  return isWithin(value, maxLength) ? null : `must have at most ${maxLength} characters.`;
}

export const PaginationSchema = z
  .object({
    page: z.number().int().openapi({ minimum: 1 }),
    limit: z.number().int().openapi({ minimum: 1, maximum: 100 }),
    total: z.number().int().openapi({ minimum: 0 }),
    total_pages: z.number().int().openapi({ minimum: 0 }),
    has_next: z.boolean(),
    has_prev: z.boolean(),
  })
  .openapi("Pagination", {
    example: { page: 1, limit: 50, total: 1, total_pages: 1, has_next: false, has_prev: false },
  });
export type PaginationView = z.infer<typeof PaginationSchema>;

export const ErrorSchema = z
  .object({
    error: z.object({
      code: z.string().openapi({ description: "Stable machine word." }),
      message: z.string().openapi({ description: "For humans: what is wrong, and what to do." }),
    }),
    timestamp,
  })
  .openapi("Error");

/** For operations without query parameters. */
export const noQuery = z.strictObject({});
/** For operations without a body. */
export const noBody = z.undefined();
