import type { Provider, VerificationMethod } from "../domain/enums.ts";
import type { Config } from "./settings-reader.ts";

/** What decides how an endpoint's requests are verified; a part of `VerificationRequest`. */
export interface VerificationSettings {
  readonly provider: Provider;
  readonly method: VerificationMethod;
  readonly methodIsExplicit: boolean;
  readonly secret: string | null;
  readonly config: Config;
}
