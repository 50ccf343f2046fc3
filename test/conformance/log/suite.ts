import { describe } from "vitest";
import { appendConformance } from "./append.ts";
import { consumeConformance } from "./consume.ts";
import { durabilityConformance } from "./durability.ts";
import { groupConformance } from "./groups.ts";
import type { LogHarnessKind } from "./harness.ts";
import { usageConformance } from "./usage.ts";

/** Declares the tests that every adapter of the log port must pass. */
export function logConformance(kind: LogHarnessKind): void {
  describe(`log conformance: ${kind.name}`, { timeout: kind.deadlineMs * 6 }, () => {
    appendConformance(kind);
    consumeConformance(kind);
    groupConformance(kind);
    usageConformance(kind);
    durabilityConformance(kind);
  });
}
