import type { Destination, Endpoint, Project } from "../../management/management.ts";
import { formatTimestamp } from "../envelope.ts";
import type { DestinationView } from "../schemas/destination.ts";
import type { EndpointView } from "../schemas/endpoint.ts";
import type { ProjectView } from "../schemas/project.ts";

export function formatNullable(timeMs: number | null): string | null {
  return timeMs === null ? null : formatTimestamp(timeMs);
}

export function presentProject(project: Project): ProjectView {
  return {
    id: project.id,
    org_id: project.orgId,
    name: project.name,
    slug: project.slug,
    created_at: formatTimestamp(project.createdAtMs),
  };
}

export function presentEndpoint(endpoint: Endpoint): EndpointView {
  return {
    id: endpoint.id,
    project_id: endpoint.projectId,
    org_id: endpoint.orgId,
    name: endpoint.name,
    provider: endpoint.provider,
    verification_method: endpoint.verificationMethod,
    status: endpoint.status,
    url: endpoint.url,
    created_at: formatTimestamp(endpoint.createdAtMs),
    updated_at: formatTimestamp(endpoint.updatedAtMs),
    deleted_at: formatNullable(endpoint.deletedAtMs),
  };
}

export function presentDestination(destination: Destination): DestinationView {
  return {
    id: destination.id,
    endpoint_id: destination.endpointId,
    org_id: destination.orgId,
    name: destination.name,
    receiver_url: destination.receiverUrl,
    forward_original_signature: destination.forwardOriginalSignature,
    status: destination.status,
    retry_max_attempts: destination.retryMaxAttempts,
    retry_backoff: destination.retryBackoff,
    rate_limit_max: destination.rateLimitMax,
    rate_limit_window: destination.rateLimitWindow,
    created_at: formatTimestamp(destination.createdAtMs),
    updated_at: formatTimestamp(destination.updatedAtMs),
    deleted_at: formatNullable(destination.deletedAtMs),
  };
}
