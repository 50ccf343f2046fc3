import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";
import { describe, expect, it } from "vitest";

const LEVELS: ReadonlySet<string> = new Set(["debug", "info", "warn", "error"]);
const SRC = join(import.meta.dirname, "../../src");
/** All sources but the port's own adapter, which passes on what it is given. */
const SOURCES = readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter(
  (path) => path.endsWith(".ts") && !path.startsWith("adapters/pino/"),
);

interface LogLine {
  readonly at: string;
  readonly keys: readonly string[];
  readonly message: string;
}

function linesOf(path: string): LogLine[] {
  const source = ts.createSourceFile(
    path,
    readFileSync(join(SRC, path), "utf8"),
    ts.ScriptTarget.Latest,
  );
  const lines: LogLine[] = [];
  const visit = (node: ts.Node): void => {
    if (
      ts.isCallExpression(node) &&
      ts.isPropertyAccessExpression(node.expression) &&
      LEVELS.has(node.expression.name.text) &&
      /logger$/i.test(node.expression.expression.getText(source))
    ) {
      const [fields, message] = node.arguments;
      const { line } = source.getLineAndCharacterOfPosition(node.getStart(source));
      lines.push({
        at: `${path}:${line + 1}`,
        keys:
          fields !== undefined && ts.isObjectLiteralExpression(fields)
            ? fields.properties.map((property) => property.name?.getText(source) ?? "...")
            : [],
        message:
          message !== undefined && ts.isStringLiteral(message)
            ? message.text
            : (message?.getText(source) ?? ""),
      });
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return lines;
}

describe("log lines", () => {
  const lines = SOURCES.flatMap(linesOf);

  it("regression: have dotted names: a few were sentences that nobody could alert on", () => {
    expect(lines.length).toBeGreaterThan(50);
    const prose = lines.filter(({ message }) => !/^[a-z_]+(\.[a-z_]+)+$/.test(message));
    expect(prose).toEqual([]);
  });

  it("regression: show errors under `err`: some were under `error`", () => {
    const elsewhere = lines.filter(({ at }) => !at.startsWith("embedded/"));
    expect(elsewhere.filter(({ keys }) => keys.includes("error"))).toEqual([]);
  });
});
