import { startFakeHarness } from "../../support/api-harness.ts";
import { describeApiConformance } from "./api-conformance.ts";

describeApiConformance("in-memory stores", () => startFakeHarness());
