import { startRealHarness } from "../../support/api-real-harness.ts";
import { describeApiConformance } from "./api-conformance.ts";

describeApiConformance("the started service with embedded stores", () => startRealHarness());
