import { TypeOverrides, types } from "pg";

/** `2026-11-20 09:30:00.123456+00`, as a session in UTC writes it with the default DateStyle. */
const ISO_UTC = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?\+00$/;
const { TIMESTAMPTZ } = types.builtins;
const parseDefault = types.getTypeParser(TIMESTAMPTZ, "text");

/** The driver's own conversions, with a faster one for the column type that every row has several of. */
export const COLUMN_TYPES = new TypeOverrides();
COLUMN_TYPES.setTypeParser(TIMESTAMPTZ, (text: string): unknown =>
  ISO_UTC.test(text) ? new Date(`${text.slice(0, 10)}T${text.slice(11, -3)}Z`) : parseDefault(text),
);
