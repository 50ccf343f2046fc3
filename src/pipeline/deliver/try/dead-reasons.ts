/** Reasons in the row of a run that ends dead without a request. */

export const DESTINATION_DELETED = "the destination was deleted";

/** For tasks of a destination that stayed paused or disabled for that long. */
export const HELD_PAST_RETENTION = "held longer than events are kept (retention)";

/** For tasks that were not held: retries, limits and failures of the receiver took that long. */
export const NOT_DELIVERED_IN_RETENTION = "not delivered within the retention";

export const DEADLINE_PASSED =
  "the receiver kept failing (circuit open) until the whole retry schedule had elapsed";
