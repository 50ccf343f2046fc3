import type { ResourceStatus } from "./enums.ts";
import type { VerificationSettings } from "./verification.ts";

/** What the ingest path knows about an endpoint. */
export interface EndpointConfig extends VerificationSettings {
  readonly id: string;
  readonly orgId: string;
  readonly status: ResourceStatus;
}
