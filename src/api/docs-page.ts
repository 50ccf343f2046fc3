import type { OpenApiDocument } from "./openapi-document.ts";
export function makeDocsPage(document: OpenApiDocument, version: string): string {
  return `<!doctype html><title>${document.info.title} ${version}</title>`;
}
