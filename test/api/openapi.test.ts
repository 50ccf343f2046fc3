import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { STATUS_OF_CODE } from "../../src/api/envelope.ts";
import { ERROR_CATALOGUE } from "../../src/api/error-catalogue.ts";
import { escapeKey, payloadToken, tokenOfField } from "../../src/domain/searchable-leaf.ts";
import { startFakeHarness } from "../support/api-harness.ts";
import type { FakeHarness } from "../support/api-harness.ts";

let harness: FakeHarness;
let document: any;
let page: string;
beforeAll(async () => {
  harness = await startFakeHarness();
  document = await (await fetch(`${harness.baseUrl}/openapi.json`)).json();
  page = await (await fetch(`${harness.baseUrl}/docs`)).text();
});
afterAll(() => harness[Symbol.asyncDispose]());

interface Example {
  readonly where: string;
  readonly schema: object;
  readonly value: unknown;
}

/** Yields every schema with an example and every media type with examples, wherever they are. */
function* findExamples(node: any, where: string): Generator<Example> {
  if (typeof node !== "object" || node === null) return;
  if (node.schema !== undefined && node.examples !== undefined)
    for (const [name, example] of Object.entries<any>(node.examples))
      yield { where: `${where} ${name}`, schema: node.schema, value: example.value };
  if (node.example !== undefined) yield { where, schema: node, value: node.example };
  for (const [key, child] of Object.entries(node))
    if (key !== "example" && key !== "examples") yield* findExamples(child, `${where}/${key}`);
}

function inDocument(schema: unknown): any {
  return JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"openapi#/'));
}

describe("the OpenAPI document", () => {
  it("is version 3.1.0 of the API 0.1.0 and needs no key", () => {
    expect(document.openapi).toBe("3.1.0");
    expect(document.info.version).toBe("0.1.0");
    expect(document.components.securitySchemes.apiKey).toMatchObject({
      type: "http",
      scheme: "bearer",
    });
  });

  it("says how a key that holds a dot is asked for", () => {
    const { parameters } = document.paths["/events"].get;
    const { schema } = parameters.find(({ name }: { name: string }) => name === "field");
    const asked = /A dot inside a key .* is written `(.*?)`/.exec(schema.description)?.[1];
    const field = ["app", "io/name"].join(asked);
    expect(tokenOfField(field, "x")).toBe(payloadToken(escapeKey("app.io/name"), "x"));
  });

  it("says that one attempt has both the status and the destination that are asked for", () => {
    for (const path of ["/events", "/events/facets"]) {
      const { parameters } = document.paths[path].get;
      const { schema } = parameters.find(({ name }: { name: string }) => name === "destination_id");
      expect(schema.description).toContain("together with `attempt_status`, at least one");
    }
  });

  it("says that verification_config takes settings: openapi-typescript made one that took none", () => {
    for (const name of ["EndpointCreate", "EndpointUpdate"])
      expect(document.components.schemas[name].properties.verification_config).toMatchObject({
        type: "object",
        additionalProperties: true,
      });
  });

  it("has only examples that its own schemas accept", () => {
    const ajv = new Ajv2020({ strict: false, allErrors: true });
    addFormats.default(ajv);
    ajv.addSchema(document, "openapi");
    const examples = [...findExamples(document, "")];
    expect(examples.length).toBeGreaterThan(60);
    for (const { where, schema, value } of examples)
      expect(ajv.validate(inDocument(schema), value), `${where}: ${ajv.errorsText()}`).toBe(true);
  });

  it("has an example for every named schema but the error and the requests of none", () => {
    for (const [name, schema] of Object.entries<any>(document.components.schemas))
      if (name !== "Error") expect(schema.example, name).toBeDefined();
  });

  it("accepts the requests of its examples", async () => {
    const { key } = await harness.newKey();
    const send = async (path: string, name: string) => {
      const response = await fetch(harness.baseUrl + path, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify(document.components.schemas[name].example),
      });
      const json: any = await response.json();
      expect(response.status, JSON.stringify(json)).toBe(201);
      return json.data.id as string;
    };
    const projectId = await send("/projects", "ProjectCreate");
    const endpointId = await send(`/projects/${projectId}/endpoints`, "EndpointCreate");
    await send(`/endpoints/${endpointId}/destinations`, "DestinationCreate");
  });

  it("describes every error code, and documents each at some operation or, if none is known by then, at the top", () => {
    expect(Object.keys(ERROR_CATALOGUE).sort()).toEqual(Object.keys(STATUS_OF_CODE).sort());
    const text = JSON.stringify(document);
    const atTheTop = new Set(["method_not_allowed", "request_timeout", "headers_too_large"]);
    for (const code of Object.keys(STATUS_OF_CODE))
      if (atTheTop.has(code)) expect(document.info.description).toContain(`\`${code}\``);
      else expect(text).toContain(`"${code}"`);
  });

  it("gives every operation a unique id, a summary, a tag, and security", () => {
    const ids = new Set<string>();
    for (const path of Object.values<any>(document.paths))
      for (const operation of Object.values<any>(path)) {
        expect(ids).not.toContain(operation.operationId);
        ids.add(operation.operationId);
        expect(operation.summary).toBeTruthy();
        expect(operation.tags).toHaveLength(1);
        expect(operation.security).toEqual([{ apiKey: [] }]);
      }
    expect(ids.size).toBe(28);
  });

  it("resolves all of its references", () => {
    const refs = [...JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)];
    expect(refs).not.toEqual([]);
    for (const [, ref] of refs) {
      const target = ref!.split("/").reduce<any>((node, key) => node?.[key], document);
      expect(target, ref).toBeDefined();
    }
  });
});

describe("the documentation page", () => {
  it("shows every operation and every schema", () => {
    for (const path of Object.values<any>(document.paths))
      for (const operation of Object.values<any>(path))
        expect(page).toContain(`<article id="${operation.operationId}">`);
    for (const name of Object.keys(document.components.schemas))
      expect(page).toContain(`<article id="schema-${name}">`);
  });

  it("loads nothing from anywhere, and its inner links lead somewhere", () => {
    expect(page).not.toMatch(/<script|src=|@import|url\(|<link/);
    const links = [...page.matchAll(/href="([^"]+)"/g)].map(([, href]) => href);
    const inner = links.filter((href) => href !== "/openapi.json");
    expect(inner).not.toEqual([]);
    for (const href of inner) {
      expect(page).toContain(`id="${href!.slice(1)}"`);
    }
  });

  it("shows the fields of what stands inside a schema without a name: an error was only an object", () => {
    expect(page).toMatch(/object of <code>code<\/code> \([^)]*\), <code>message<\/code>/);
    expect(page).toContain("list of object of <code>value</code>");
  });

  it("underlines links in text, and needs no sideways scrolling on a narrow screen: descriptions were cut off", () => {
    const style = /<style>(.*?)<\/style>/s.exec(page)?.[1] ?? "";
    expect(style).toMatch(/main a\s*\{ text-decoration:underline; \}/);
    expect(style.split("max-width: 820px")[1]).toContain("tr, td { display:block; }");
  });

  it("forbids everything but its own style", async () => {
    const response = await fetch(`${harness.baseUrl}/docs`);
    expect(response.headers.get("content-type")).toMatch(/^text\/html/);
    expect(response.headers.get("content-security-policy")).toContain("default-src 'none'");
  });
});
