import type { z } from "@hono/zod-openapi";
import { invalid, nameOfField } from "./api-failure.ts";

type Issue = z.core.$ZodIssue;

/** @throws {ApiFailure} `validation_error` with the first problem, starting with the name of its field */
export function parseInput<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  place: "body" | "query",
): z.output<Schema> {
  const result = schema.safeParse(value, { reportInput: true });
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  if (issue === undefined) throw invalid(place, "is not valid.");
  throw invalid(fieldOf(issue, place), problemOf(issue, place));
}

function fieldOf(issue: Issue, place: string): string {
  const path = [...issue.path];
  if (issue.code === "unrecognized_keys") path.push(issue.keys[0] ?? "");
  return nameOfField(path, place);
}

function problemOf(issue: Issue, place: string): string {
  switch (issue.code) {
    case "unrecognized_keys":
      return place === "query" ? "unknown query parameter." : "unknown field.";
    case "invalid_type":
      return issue.input === undefined ? "is required." : `must be ${article(issue.expected)}.`;
    case "invalid_value":
      return issue.input === undefined
        ? "is required."
        : `must be one of ${issue.values.map(String).join(", ")}.`;
    case "too_small":
      return `must be at least ${issue.minimum}.`;
    case "too_big":
      return `must be at most ${issue.maximum}.`;
    default:
      return issue.message;
  }
}

function article(type: string): string {
  if (type === "int") return "an integer";
  if (type === "object" || type === "array") return `an ${type}`;
  return type === "record" ? "an object" : `a ${type}`;
}
