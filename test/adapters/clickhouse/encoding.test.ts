import fc from "fast-check";
import { expect, test } from "vitest";
import { fromHeaderText, toHeaderText } from "../../../src/adapters/clickhouse/header-text.ts";
import { TabSeparatedWriter } from "../../../src/adapters/clickhouse/tab-separated.ts";

test("headers come back as they were, in their order, whatever their values hold", () => {
  const name = fc.stringMatching(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,8}$/);
  const value = fc.oneof(fc.string(), fc.constantFrom("", ": ", "a\nb", "\n", "\n\t", "a: b"));
  fc.assert(
    fc.property(fc.array(fc.tuple(name, value)), (headers) => {
      expect(fromHeaderText(toHeaderText(headers))).toEqual(headers);
    }),
  );
});

test("a row is one line, however many tabs and line feeds are in its fields", () => {
  fc.assert(
    fc.property(fc.uint8Array(), fc.string(), fc.array(fc.string()), (bytes, text, list) => {
      const out = new TabSeparatedWriter(1);
      out.binary(bytes);
      out.string(text);
      out.strings(list);
      out.nullableString(null);
      out.nullableTime(null);
      out.time(1_700_000_000_007);
      out.endRow();
      const written = out.bytes().toString("latin1");
      expect(written.split("\n")).toHaveLength(2);
      expect(written.split("\t")).toHaveLength(6);
      expect(written.endsWith("\\N\t\\N\t1700000000.007\n")).toBe(true);
    }),
  );
});
