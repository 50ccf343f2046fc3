import type { PageOf } from "../domain/config-store.ts";
import type { Page } from "../management/management.ts";
import type { PaginationView } from "./schemas/common.ts";

/** Reads one page of a list of resources, as it is answered. */
export async function answerPage<Item, View>(
  { page, limit }: Page,
  list: (page: Page) => Promise<PageOf<Item>>,
  present: (item: Item) => View,
): Promise<{ readonly data: View[]; readonly pagination: PaginationView }> {
  const { items, total } = await list({ page: boundPage(page, limit), limit });
  return { data: items.map(present), pagination: describePage(page, limit, total) };
}

/** Returns the pagination object of a list. */
export function describePage(page: number, limit: number, total: number): PaginationView {
  const totalPages = Math.ceil(total / limit);
  return {
    page,
    limit,
    total,
    total_pages: totalPages,
    has_next: page < totalPages,
    has_prev: page > 1,
  };
}

/** Keeps `(page - 1) × limit` exact, and within what a store's OFFSET takes: pages that far out are empty anyway. */
function boundPage(page: number, limit: number): number {
  return Math.min(page, Math.floor(Number.MAX_SAFE_INTEGER / limit));
}
