/** What the row of a run says that ends dead without a request. */

export const DESTINATION_DELETED = "the destination was deleted";

/** The tasks of a destination that stayed paused or disabled for so long. */
export const HELD_PAST_RETENTION = "held longer than events are kept (retention)";

/** A task that nobody held: retries, limits and failures of its receiver took so long. */
export const NOT_DELIVERED_IN_RETENTION = "not delivered within the retention";

export const DEADLINE_PASSED =
  "the receiver kept failing (circuit open) until the whole retry schedule had elapsed";
