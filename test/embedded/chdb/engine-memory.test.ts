import { expect, test } from "vitest";
import { engineMemoryBytes } from "../../../src/embedded/chdb/engine-memory.ts";

const MB = 1_000_000;
const UNLIMITED = 2 ** 63;

test.each([
  ["a large machine", 24_000 * MB, 0, 9_600 * MB],
  ["a large machine whose limit is that of numbers", 24_000 * MB, UNLIMITED, 9_600 * MB],
  ["a small machine", 2_000 * MB, 0, 1_500 * MB],
  ["a container of 1 GB on a large machine", 24_000 * MB, 1_000 * MB, 500 * MB],
  ["a container of 2 GB on a large machine", 24_000 * MB, 2_000 * MB, 1_000 * MB],
  ["a container of 3.5 GB on a large machine", 24_000 * MB, 3_500 * MB, 1_500 * MB],
  ["a container of 8 GB on a large machine", 24_000 * MB, 8_000 * MB, 3_200 * MB],
  ["a container that may have all of a machine", 2_000 * MB, 2_000 * MB, 1_500 * MB],
])(
  "regression: on %s the engine may take what is there: in a container it took the machine's memory for its own, and the system ended the relay",
  (_what, machineBytes, containerBytes, bytes) => {
    expect(engineMemoryBytes(machineBytes, containerBytes)).toBe(bytes);
  },
);
