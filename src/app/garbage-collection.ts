import { setFlagsFromString } from "node:v8";

const FLAGS = ["--concurrent-marking-max-worker-num=1", "--heap-growing-percent=100"];

/**
 * V8's collector expects cores to spare: it marks on several threads beside the program. A relay shares two cores or so with its
 * stores, and those threads stood in the way of the ones that commit and deliver for 50 ms at a time, once a second. So
 * one thread marks, and the old generation may double before it is collected again (by V8's own reckoning it grew by a
 * tenth). Measured in bench/what-was-tried.md, "The collector". A V8 that does not know one of the flags says so and goes on.
 */
export function keepCollectorAside(): void {
  for (const flag of FLAGS) setFlagsFromString(flag);
}
