import { expect, test } from "vitest";
import { bindParameters } from "../../../src/embedded/chdb/bind-parameters.ts";

const bind = (sql: string, parameters: Record<string, string>): string =>
  bindParameters(sql, new Map(Object.entries(parameters)));

test("a String is a literal, whatever is in it", () => {
  const sql = "SELECT {text:String}";
  expect(bind(sql, { text: "plain" })).toBe("SELECT 'plain'");
  expect(bind(sql, { text: "it's" })).toBe("SELECT 'it\\'s'");
  expect(bind(sql, { text: "'; DROP TABLE events --" })).toBe("SELECT '\\'; DROP TABLE events --'");
  expect(bind(sql, { text: "a\\tb\\nc\\\\d\\'e" })).toBe("SELECT 'a\tb\nc\\\\d\\'e'");
  expect(bind(sql, { text: "\0" })).toBe("SELECT '\\0'");
  expect(bind(sql, { text: "$& {text:String}" })).toBe("SELECT '$& {text:String}'");
});

test("any other type is cast from its text, so that a value cannot be more than one value", () => {
  expect(bind("LIMIT {n:UInt32}", { n: "5" })).toBe("LIMIT _CAST('5', 'UInt32')");
  expect(bind("LIMIT {n:UInt32}", { n: "5 UNION ALL SELECT 1" })).toBe(
    "LIMIT _CAST('5 UNION ALL SELECT 1', 'UInt32')",
  );
  expect(bind("id IN {ids:Array(String)}", { ids: "['a','it\\'s']" })).toBe(
    "id IN _CAST('[\\'a\\',\\'it\\\\\\'s\\']', 'Array(String)')",
  );
  expect(bind("{x:Nullable(String)}", { x: "\\N" })).toBe("_CAST(NULL, 'Nullable(String)')");
});

test("what is not given stands as it is, for the engine to refuse", () => {
  expect(bind("SELECT {a:String}, {b:String}", { a: "1" })).toBe("SELECT '1', {b:String}");
  expect(bind("SELECT '{a:1}'", {})).toBe("SELECT '{a:1}'");
});
