import type { PageOf } from "../domain/config-store.ts";
import type { PageRange } from "../domain/event-query.ts";
import type { Page } from "./management.ts";

export function toOffset(page: Page): PageRange {
  return { offset: (page.page - 1) * page.limit, limit: page.limit };
}

export function mapPage<Row, T>(page: PageOf<Row>, map: (row: Row) => T): PageOf<T> {
  return { items: page.items.map(map), total: page.total };
}
