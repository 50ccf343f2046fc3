/** Returns the given fields that differ from the row: they are written, and the audit names them. */
export function changesOf<Row extends object>(
  row: Row,
  wanted: { readonly [Field in keyof Row]?: Row[Field] | undefined },
): Partial<Row> {
  const changed = Object.entries(wanted).filter(
    ([field, value]) => value !== undefined && value !== row[field as keyof Row],
  );
  return Object.fromEntries(changed) as Partial<Row>;
}
