import { Ajv2020 } from "ajv/dist/2020.js";
import type { ValidateFunction } from "ajv";
import addFormats from "ajv-formats";

interface DocumentedResponse {
  readonly $ref?: string;
  readonly headers?: Record<string, { readonly required?: boolean }>;
  readonly content?: Record<string, { readonly schema: object }>;
}
export interface OpenApiJson {
  readonly paths: Record<
    string,
    Record<
      string,
      { readonly operationId: string; readonly responses: Record<string, DocumentedResponse> }
    >
  >;
  readonly components: {
    readonly schemas: Record<string, object>;
    readonly responses: Record<string, DocumentedResponse>;
  };
}

export interface Exchange {
  readonly method: string;
  /** Path and query, as requested. */
  readonly target: string;
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

const ENVELOPE_ONLY = new Set([404, 405]);

/**
 * Checks every exchange against the OpenAPI document: the status is documented, the headers are present, and the body
 * matches without undocumented fields.
 */
export class ResponseCheck {
  readonly #document: OpenApiJson;
  readonly #ajv: Ajv2020;
  readonly #validators = new Map<string, ValidateFunction>();

  constructor(document: OpenApiJson) {
    this.#document = closeObjects(document);
    this.#ajv = new Ajv2020({ strict: false, allErrors: true });
    addFormats.default(this.#ajv);
    this.#ajv.addSchema(this.#document, "openapi");
  }

  /** @throws {Error} that says what is undocumented */
  check(exchange: Exchange): void {
    const operation = this.#find(exchange);
    const where = `${exchange.method} ${exchange.target} → ${exchange.status}`;
    if (exchange.headers.get("x-request-id") === null) throw new Error(`${where}: no x-request-id`);
    if (exchange.method === "HEAD" || exchange.method === "OPTIONS") {
      if (exchange.text !== "") throw new Error(`${where}: unexpected body`);
      return;
    }
    if (operation === null) {
      if (exchange.status === 200) return;
      if (!ENVELOPE_ONLY.has(exchange.status)) throw new Error(`${where}: not an operation`);
      this.#checkSchema({ $ref: "openapi#/components/schemas/Error" }, exchange, where, "Error");
      return;
    }
    const found = operation.responses[exchange.status];
    const sharedName = found?.$ref?.slice("#/components/responses/".length);
    const response =
      sharedName === undefined ? found : this.#document.components.responses[sharedName];
    if (response === undefined) throw new Error(`${where}: undocumented status`);
    for (const [name, header] of Object.entries(response.headers ?? {}))
      if (header.required === true && exchange.headers.get(name) === null)
        throw new Error(`${where}: header ${name} is missing`);
    if (response.content === undefined) {
      if (exchange.text !== "") throw new Error(`${where}: unexpected body`);
      return;
    }
    const home =
      sharedName !== undefined
        ? `components/responses/${sharedName}`
        : `paths/${escape(operation.path)}/${exchange.method.toLowerCase()}/responses/${exchange.status}`;
    const pointer = `openapi#/${home}/content/application~1json/schema`;
    this.#checkSchema({ $ref: pointer }, exchange, where, pointer);
  }

  #checkSchema(schema: object, exchange: Exchange, where: string, key: string): void {
    const type = exchange.headers.get("content-type");
    if (type !== "application/json") throw new Error(`${where}: content-type ${type}`);
    const validate = this.#validators.get(key) ?? this.#ajv.compile(schema);
    this.#validators.set(key, validate);
    if (!validate(JSON.parse(exchange.text)))
      throw new Error(`${where}: ${this.#ajv.errorsText(validate.errors)}\n${exchange.text}`);
  }

  #find(exchange: Exchange) {
    const path = exchange.target.split("?")[0] ?? "";
    // A fixed path takes precedence over one with a parameter, as in the router.
    const paths = Object.keys(this.#document.paths).sort(
      (a, b) => a.split("{").length - b.split("{").length,
    );
    for (const template of paths) {
      const pattern = new RegExp(`^${template.replaceAll(/\{\w+\}/g, "[^/]+")}$`);
      if (!pattern.test(path)) continue;
      const operation = this.#document.paths[template]?.[exchange.method.toLowerCase()];
      return operation === undefined ? null : { ...operation, path: template };
    }
    return null;
  }
}

function escape(path: string): string {
  return encodeURIComponent(path.replaceAll("~", "~0").replaceAll("/", "~1"));
}

/** Makes every object schema with properties refuse others, so that an undocumented field fails. */
function closeObjects<T>(node: T): T {
  if (Array.isArray(node)) return node.map((item: unknown) => closeObjects(item)) as T;
  if (typeof node !== "object" || node === null) return node;
  const copy: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(node))
    copy[key] = key === "example" || key === "examples" ? value : closeObjects(value);
  if (copy["type"] === "object" && "properties" in copy && !("additionalProperties" in copy))
    copy["additionalProperties"] = false;
  return copy as T;
}
