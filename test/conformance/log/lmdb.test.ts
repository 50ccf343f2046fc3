import { lmdbHarness } from "../../support/log-lmdb.ts";
import { logConformance } from "./suite.ts";

logConformance(lmdbHarness);
