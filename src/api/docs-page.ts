import { DOCS_STYLE } from "./docs-style.ts";
import { escapeHtml, renderSchema, renderText, renderType, resolveRef } from "./docs-schema.ts";
import type { SchemaNode } from "./docs-schema.ts";
import type { OpenApiDocument } from "./openapi-document.ts";

interface ParameterNode {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly schema: SchemaNode;
}
interface ResponseNode {
  readonly $ref?: string;
  readonly description?: string;
  readonly content?: { readonly "application/json": { readonly schema: SchemaNode } };
}
interface OperationNode {
  readonly method: string;
  readonly path: string;
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  readonly tags: readonly string[];
  readonly parameters?: readonly ParameterNode[];
  readonly requestBody?: {
    readonly content: { readonly "application/json": { readonly schema: SchemaNode } };
  };
  readonly responses: Readonly<Record<string, ResponseNode>>;
}

/** Makes a self-contained page from the document: operations by tag, then the schemas. */
export function makeDocsPage(document: OpenApiDocument, version: string): string {
  const operations = listOperations(document);
  const schemas = Object.entries(document.components?.schemas ?? {}) as [string, SchemaNode][];
  const tags = document.tags ?? [];
  const groups = tags.map(({ name, description }) => ({
    name,
    description: description ?? "",
    operations: operations.filter((operation) => operation.tags.includes(name)),
  }));
  const { title, description = "" } = document.info;
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>${escapeHtml(title)} API</title><style>${DOCS_STYLE}</style></head><body><div class="page">
<nav><a href="#top"><strong>${escapeHtml(title)}</strong></a>
${groups.map((group) => `<h2>${escapeHtml(group.name)}</h2><ul>${group.operations.map(renderLink).join("")}</ul>`).join("\n")}
<h2>Schemas</h2><ul>${schemas.map(([name]) => `<li><a href="#schema-${name}">${name}</a></li>`).join("")}</ul></nav>
<main id="top"><h1>${escapeHtml(title)} <small>API ${escapeHtml(document.info.version)} · relay ${escapeHtml(version)}</small></h1>
${renderText(description)}
<p>Send <code>Authorization: Bearer &lt;API_KEY&gt;</code> with every operation. The machine-readable document is <a href="/openapi.json">/openapi.json</a>.</p>
${groups
  .map(
    (group) =>
      `<section><h2>${escapeHtml(group.name)}</h2><p class="dim">${escapeHtml(group.description)}</p>${group.operations
        .map((operation) => renderOperation(operation, document))
        .join("\n")}</section>`,
  )
  .join("\n")}
<section><h2>Schemas</h2>${schemas.map(([name, schema]) => renderNamedSchema(name, schema)).join("\n")}</section>
</main></div></body></html>`;
}

function listOperations(document: OpenApiDocument): OperationNode[] {
  return Object.entries(document.paths ?? {}).flatMap(([path, item]) =>
    (["get", "post", "patch", "delete"] as const).flatMap((method) => {
      const operation = item[method];
      // Made by our own generator a moment ago, so its parts are known.
      return operation === undefined
        ? []
        : [{ ...operation, method, path } as unknown as OperationNode];
    }),
  );
}

function renderLink(operation: OperationNode): string {
  return `<li><a href="#${operation.operationId}">${escapeHtml(operation.summary)}</a></li>`;
}

function renderOperation(operation: OperationNode, document: OpenApiDocument): string {
  const {
    operationId,
    method,
    path,
    summary,
    description,
    parameters = [],
    requestBody,
  } = operation;
  const body = requestBody?.content["application/json"].schema;
  return `<article id="${operationId}"><h3>${escapeHtml(summary)}</h3>
<div class="line"><span class="verb ${method}">${method}</span><code>${escapeHtml(path)}</code></div>
${renderText(description)}
${parameters.length === 0 ? "" : renderParameters(parameters)}
${body === undefined ? "" : `<h4>Body</h4>${renderType(body)}`}
<h4>Answers</h4>${renderResponses(operation.responses, document)}</article>`;
}

function renderParameters(parameters: readonly ParameterNode[]): string {
  const rows = parameters.map(
    ({ name, in: place, required, schema }) =>
      `<tr><td><code>${escapeHtml(name)}</code>${required === true ? ' <span class="required">required</span>' : ""}</td><td>${place}</td><td>${renderType(schema)}</td><td>${renderText(schema.description ?? "")}</td></tr>`,
  );
  return `<h4>Parameters</h4><div class="scroll"><table><tbody>${rows.join("")}</tbody></table></div>`;
}

function renderResponses(responses: OperationNode["responses"], document: OpenApiDocument): string {
  const rows = Object.entries(responses).map(([status, given]) => {
    const response =
      given.$ref === undefined ? given : (resolveRef(document, given.$ref) as ResponseNode);
    const schema = response.content?.["application/json"].schema;
    const data = Number(status) < 300 ? schema?.properties?.["data"] : undefined;
    const type = data === undefined ? "" : ` · data: ${renderType(data)}`;
    return `<tr><td><code>${status}</code></td><td>${renderText(response.description ?? "")}${type}</td></tr>`;
  });
  return `<div class="scroll"><table><tbody>${rows.join("")}</tbody></table></div>`;
}

function renderNamedSchema(name: string, schema: SchemaNode): string {
  const example =
    schema.example === undefined
      ? ""
      : `<details><summary>Example</summary><pre>${escapeHtml(JSON.stringify(schema.example, null, 2))}</pre></details>`;
  return `<article id="schema-${name}"><h3>${name}</h3>${renderSchema(schema)}${example}</article>`;
}
