import { setFlagsFromString } from "node:v8";

const FLAGS = [
  "--concurrent-marking-max-worker-num=1",
  "--heap-growing-percent=100",
  "--no-allocation-site-pretenuring",
];

/**
 * Lets V8 mark on one thread only, and lets the old generation double before it is collected again. By default V8 marks
 * on several threads, and collects when that generation has grown by about a tenth. That assumes spare cores: on two
 * cores shared with the stores, it makes the threads that commit and deliver wait for 50 ms about once a second
 * (bench/what-was-tried.md, "The collector"). Nor may V8 make objects in the old generation because others that were made
 * at the same place once lived long: what comes in with a webhook goes with it, but a single pause lets thousands live for
 * a while. A V8 that does not know one of the flags says so and goes on.
 */
export function keepCollectorAside(): void {
  for (const flag of FLAGS) setFlagsFromString(flag);
}
