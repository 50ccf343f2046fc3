import fc from "fast-check";
import { makeTestClient } from "./api-harness.ts";
import type { ApiRequest } from "./api-harness.ts";

interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly format?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly properties?: Record<string, Schema>;
  readonly required?: readonly string[];
}
interface Operation {
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: "path" | "query";
    readonly schema: Schema & { readonly example?: string };
  }[];
  readonly requestBody?: {
    readonly content: { readonly "application/json": { readonly schema: Schema } };
  };
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

const JUNK_TEXT = [
  "",
  " ",
  "\0",
  "a\0b",
  "null",
  "-1",
  "1e999",
  "../..",
  "%",
  "'; --",
  "__proto__",
  "\u202e",
  "𝕏".repeat(300),
  "{}",
  "[]",
];

const junkText = fc.oneof(
  fc.constantFrom(...JUNK_TEXT),
  fc.string({ unit: "binary", maxLength: 40 }),
);
const junkJson = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<unknown>,
  junkText,
  fc.constantFrom<unknown>(null, true, 0, -0, 1e308, 2 ** 53, [], {}, [[]], { a: { b: null } }),
);

/** Makes random requests from the document alone: valid ones, invalid ones, and valid ones with one thing wrong. */
function makeRequests(document: any, knownIds: readonly string[]): fc.Arbitrary<ApiRequest> {
  const operations = Object.entries<any>(document.paths).flatMap(([path, methods]) =>
    Object.entries<Operation>(methods).map(([method, operation]) =>
      makeRequest(document, method.toUpperCase(), path, operation, knownIds),
    ),
  );
  return fc.oneof(...operations);
}

function makeRequest(
  document: any,
  method: string,
  path: string,
  operation: Operation,
  knownIds: readonly string[],
): fc.Arbitrary<ApiRequest> {
  const parameters = operation.parameters ?? [];
  const idsInPath = parameters.filter((parameter) => parameter.in === "path");
  const inQuery = parameters.filter((parameter) => parameter.in === "query");
  const body = operation.requestBody?.content["application/json"].schema;
  return fc
    .record({
      ids: fc.tuple(...idsInPath.map(({ schema }) => idLike(schema.example ?? "", knownIds))),
      query: fc.record(
        Object.fromEntries(
          inQuery.map(({ name, schema }) => [name, mostly(queryValue(schema), junkText)]),
        ),
        { requiredKeys: [] },
      ),
      keep: fc.integer({ min: 0, max: 2 ** inQuery.length - 1 }),
      extra: rarely(fc.tuple(junkText, junkText)),
      body: body === undefined ? rarely(junkJson) : mostly(valueOf(document, body), junkJson),
      rawBody: rarely(fc.oneof(fc.uint8Array({ maxLength: 50 }), junkText)),
      headers: fc.record(
        {
          accept: fc.constantFrom(
            "*/*",
            "text/html",
            "application/json;q=0",
            "application/*;q=0.1",
          ),
          "content-type": fc.constantFrom(
            "application/json",
            "text/plain",
            "application/json; charset=utf-8",
            ";",
          ),
        },
        { requiredKeys: [] },
      ),
      useHeaders: rarely(fc.constant(true)),
    })
    .map(({ ids, query, keep, extra, body: json, rawBody, headers, useHeaders }) => {
      let index = 0;
      const filled = path.replaceAll(
        /\{\w+\}/g,
        () => encodeURIComponent(wellFormed(ids[index++] ?? "")) || "x",
      );
      const pairs = Object.entries(query).filter((_, position) => (keep >> position) & 1);
      if (extra !== undefined) pairs.push(extra);
      const search = new URLSearchParams();
      for (const [name, value] of pairs) search.append(name, String(value));
      const suffix = search.size === 0 ? "" : `?${search.toString()}`;
      const request: Mutable<ApiRequest> = { method, path: filled + suffix };
      if (useHeaders === true) request.headers = headers;
      if (method === "GET") return request;
      if (json !== undefined) request.json = json;
      if (rawBody !== undefined) request.body = rawBody;
      return request;
    });
}

const mostly = <T>(right: fc.Arbitrary<T>, wrong: fc.Arbitrary<T>) =>
  fc.oneof({ arbitrary: right, weight: 9 }, { arbitrary: wrong, weight: 1 });
const rarely = <T>(arbitrary: fc.Arbitrary<T>) =>
  fc.oneof({ arbitrary: fc.constant(undefined), weight: 14 }, { arbitrary, weight: 1 });

function idLike(example: string, knownIds: readonly string[]): fc.Arbitrary<string> {
  const prefix = example.slice(0, example.indexOf("_") + 1);
  const known = knownIds.filter((id) => id.startsWith(prefix));
  const others = fc.oneof(fc.constantFrom(example, ...knownIds), junkText);
  return known.length === 0 ? others : mostly(fc.constantFrom(...known), others);
}

/** Replaces lone surrogates, on which `encodeURIComponent` throws. */
function wellFormed(text: string): string {
  return Buffer.from(text).toString();
}

function queryValue(schema: Schema): fc.Arbitrary<string> {
  if (schema.format === "date-time")
    return fc
      .date({ noInvalidDate: true, min: new Date(0), max: new Date(4e12) })
      .map((date) => date.toISOString());
  return valueOf({}, schema).map(String);
}

function valueOf(document: any, schema: Schema): fc.Arbitrary<unknown> {
  if (schema.$ref !== undefined)
    return valueOf(document, document.components.schemas[schema.$ref.split("/").at(-1) ?? ""]);
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  const types = [schema.type ?? "object"].flat();
  return fc.oneof(...types.map((type) => valueOfType(document, type, schema)));
}

function valueOfType(document: any, type: string, schema: Schema): fc.Arbitrary<unknown> {
  switch (type) {
    case "null":
      return fc.constant(null);
    case "boolean":
      return fc.boolean();
    case "integer":
    case "number":
      return fc.integer({
        min: schema.minimum ?? -100,
        max: Math.min(schema.maximum ?? 1_000, 2 ** 31 - 1),
      });
    case "string":
      return schema.format === "uri"
        ? mostly(fc.constant("https://hooks.example.com/x"), fc.webUrl())
        : fc.string({
            unit: "grapheme",
            minLength: schema.minLength ?? 0,
            maxLength: Math.min(schema.maxLength ?? 50, 300),
          });
    default: {
      const { properties } = schema;
      if (properties === undefined)
        return fc.dictionary(fc.string({ maxLength: 12 }), fc.jsonValue(), { maxKeys: 3 });
      const fields = Object.entries(properties).map(([name, field]) => [
        name,
        mostly(valueOf(document, field), junkJson),
      ]);
      return fc.record(Object.fromEntries(fields), {
        requiredKeys: (schema.required ?? []) as never[],
      });
    }
  }
}

export interface FuzzOptions {
  readonly baseUrl: string;
  readonly key: string;
  readonly runs: number;
  readonly seed?: number;
  /** Ids to target besides those that the run itself creates. */
  readonly knownIds: readonly string[];
}

/**
 * Sends random requests until one is answered 5xx or with anything undocumented.
 * @returns how often each status was answered. @throws with the shrunk request and the seed
 */
export async function fuzzApi(options: FuzzOptions): Promise<ReadonlyMap<number, number>> {
  const client = await makeTestClient(options, options.key);
  const counts = new Map<number, number>();
  const property = fc.asyncProperty(
    makeRequests(client.document, options.knownIds),
    async (request) => {
      const { status, text } = await client.send(request);
      counts.set(status, (counts.get(status) ?? 0) + 1);
      if (status >= 500) throw new Error(`${request.method} ${request.path} → ${status}: ${text}`);
    },
  );
  await fc.assert(property, {
    numRuns: options.runs,
    ...(options.seed === undefined ? {} : { seed: options.seed }),
  });
  return counts;
}
