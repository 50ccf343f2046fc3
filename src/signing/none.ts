import { defineScheme } from "./scheme.ts";
import { readSettings } from "./settings-reader.ts";
import { GENUINE } from "./verdict.ts";

/** Chosen explicitly for senders that cannot sign: everything is accepted. */
export const noneScheme = defineScheme({
  parse: (config) => readSettings(config, [], () => null),
  verify: () => GENUINE,
});
