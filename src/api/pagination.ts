import type { PaginationView } from "./schemas/common.ts";

/** The pagination object of a list. */
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
export function boundPage(page: number, limit: number): number {
  return Math.min(page, Math.floor(Number.MAX_SAFE_INTEGER / limit));
}
