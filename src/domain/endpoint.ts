import type { Provider, ResourceStatus, VerificationMethod } from "./enums.ts";

/**
 * What the ingest path knows about an endpoint. `secret` is clear text, in memory only. `config` is the stored
 * `verification_config`; `{}` when none was given.
 */
export interface EndpointConfig {
  readonly id: string;
  readonly orgId: string;
  readonly provider: Provider;
  readonly method: VerificationMethod;
  /** True when the method was set explicitly: a known provider's preset then does not apply. */
  readonly methodIsExplicit: boolean;
  readonly secret: string | null;
  readonly config: Readonly<Record<string, unknown>>;
  readonly status: ResourceStatus;
}
