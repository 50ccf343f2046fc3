import pg from "pg";
import { expect, it } from "vitest";
import { COLUMN_TYPES } from "../../../src/adapters/postgres/column-types.ts";

const { TIMESTAMPTZ } = pg.types.builtins;

function read(oid: number, text: string): unknown {
  return (COLUMN_TYPES.getTypeParser(oid) as unknown as (text: string) => unknown)(text);
}

it.each([
  "2026-11-20 09:30:00+00",
  "2026-11-20 09:30:00.1+00",
  "2026-11-20 09:30:00.123+00",
  "2026-11-20 09:30:00.123456+00",
  "0099-01-02 03:04:05+00",
  "2026-11-20 09:30:00.123+05:30",
  "2026-11-20 09:30:00-08",
  "12026-11-20 09:30:00+00",
  "0044-03-15 12:00:00+00 BC",
  "infinity",
])("reads the timestamp %s as the driver does", (text) => {
  const ours = read(TIMESTAMPTZ, text);
  expect(ours).toEqual(pg.types.getTypeParser(TIMESTAMPTZ, "text")(text));
});

it("leaves other types to the driver", () => {
  const { INT8, BOOL, BYTEA } = pg.types.builtins;
  expect(read(INT8, "12")).toBe("12");
  expect(read(BOOL, "t")).toBe(true);
  expect(read(BYTEA, "\\x00ff")).toEqual(Buffer.from([0, 255]));
});
