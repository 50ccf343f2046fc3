/** The part of JSON Schema that the document uses. */
export interface SchemaNode {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly format?: string;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly required?: readonly string[];
  readonly items?: SchemaNode;
  readonly anyOf?: readonly SchemaNode[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly default?: unknown;
  readonly example?: unknown;
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
};

export function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"]/g, (character) => ENTITIES[character] ?? "");
}

/** Renders paragraphs, `code` and tables of the document's Markdown; everything else is text. */
export function renderText(markdown: string): string {
  return markdown
    .split(/\n\n+/)
    .filter((block) => block !== "")
    .map((block) => (block.startsWith("|") ? renderTable(block) : `<p>${renderInline(block)}</p>`))
    .join("");
}

function renderInline(text: string): string {
  return escapeHtml(text).replaceAll(/`([^`]+)`/g, "<code>$1</code>");
}

function renderTable(block: string): string {
  const rows = block
    .split("\n")
    .filter((line) => !/^\|[\s|-]+\|$/.test(line))
    .map((line) => line.slice(1, -1).split("|"))
    .map(
      (cells) =>
        `<tr>${cells.map((cell) => `<td>${renderInline(cell.trim())}</td>`).join("")}</tr>`,
    );
  return `<div class="scroll"><table><tbody>${rows.join("")}</tbody></table></div>`;
}

/** Describes a type in a few words, with a link where it has a name. */
export function renderType(schema: SchemaNode): string {
  if (schema.$ref !== undefined) {
    const name = escapeHtml(schema.$ref.split("/").at(-1) ?? "");
    return `<a href="#schema-${name}">${name}</a>`;
  }
  if (schema.anyOf !== undefined) return schema.anyOf.map(renderType).join(" or ");
  if (schema.items !== undefined) return `list of ${renderType(schema.items)}`;
  if (schema.enum !== undefined)
    return schema.enum.map((value) => `<code>${escapeHtml(String(value))}</code>`).join(" ");
  if (schema.properties !== undefined) return `object of ${renderFields(schema.properties)}`;
  const types = [schema.type ?? "any"].flat().join(" or ");
  const format = schema.format === undefined ? "" : ` (${escapeHtml(schema.format)})`;
  return `${escapeHtml(types)}${format}${escapeHtml(renderBounds(schema))}`;
}

/** Lists the fields of an object that has no name of its own. */
function renderFields(fields: NonNullable<SchemaNode["properties"]>): string {
  return Object.entries(fields)
    .map(([name, field]) => `<code>${escapeHtml(name)}</code> (${renderType(field)})`)
    .join(", ");
}

function renderBounds(schema: SchemaNode): string {
  const parts = [
    renderRange(schema.minimum, schema.maximum, ""),
    renderRange(schema.minLength, schema.maxLength, " characters"),
    schema.default === undefined ? "" : `default ${JSON.stringify(schema.default)}`,
  ].filter((part) => part !== "");
  return parts.length === 0 ? "" : `, ${parts.join(", ")}`;
}

function renderRange(low: number | undefined, high: number | undefined, unit: string): string {
  // A bound of the largest safe integer tells the reader nothing.
  const top = high === Number.MAX_SAFE_INTEGER ? undefined : high;
  if (low !== undefined && top !== undefined) return `${low} to ${top}${unit}`;
  if (low !== undefined) return `at least ${low}${unit}`;
  return top === undefined ? "" : `at most ${top}${unit}`;
}

/** Renders the fields of an object as a table. */
export function renderSchema(schema: SchemaNode): string {
  const rows = Object.entries(schema.properties ?? {}).map(([name, field]) => {
    const required = schema.required?.includes(name) === true;
    return `<tr><td><code>${escapeHtml(name)}</code>${required ? "" : ' <span class="dim">optional</span>'}</td><td>${renderType(field)}${renderText(field.description ?? "")}</td></tr>`;
  });
  return `${renderText(schema.description ?? "")}<div class="scroll"><table><tbody>${rows.join("")}</tbody></table></div>`;
}

/** @throws {Error} when the document does not have it */
export function resolveRef(document: object, ref: string): unknown {
  let node: unknown = document;
  for (const key of ref.slice(2).split("/"))
    node = (node as Record<string, unknown> | undefined)?.[key];
  if (node === undefined) throw new Error(`The OpenAPI document lacks ${ref}`);
  return node;
}
