import type { z } from "@hono/zod-openapi";
import type { AttemptStatus, Provider } from "../domain/enums.ts";
import type { PaginationSchema } from "../api/schemas/common.ts";
import type {
  CreatedDestinationSchema,
  DestinationCreateSchema,
  DestinationSchema,
  DestinationSecretSchema,
  DestinationUpdateSchema,
} from "../api/schemas/destination.ts";
import type {
  EndpointCreateSchema,
  EndpointSchema,
  EndpointSecretSchema,
  EndpointUpdateSchema,
  TestResultSchema,
} from "../api/schemas/endpoint.ts";
import type {
  AttemptSchema,
  EventDetailSchema,
  EventSchema,
  FacetsSchema,
  ReplayAllSchema,
  ReplayOneSchema,
} from "../api/schemas/event.ts";
import type {
  ProjectCreateSchema,
  ProjectSchema,
  ProjectUpdateSchema,
} from "../api/schemas/project.ts";

type Pagination = z.infer<typeof PaginationSchema>;
export type Project = z.infer<typeof ProjectSchema>;
export type ProjectCreate = z.input<typeof ProjectCreateSchema>;
export type ProjectUpdate = z.input<typeof ProjectUpdateSchema>;
export type Endpoint = z.infer<typeof EndpointSchema>;
export type EndpointCreate = z.input<typeof EndpointCreateSchema>;
export type EndpointUpdate = z.input<typeof EndpointUpdateSchema>;
export type EndpointSecret = z.infer<typeof EndpointSecretSchema>;
export type TestResult = z.infer<typeof TestResultSchema>;
export type Destination = z.infer<typeof DestinationSchema>;
export type CreatedDestination = z.infer<typeof CreatedDestinationSchema>;
export type DestinationCreate = z.input<typeof DestinationCreateSchema>;
export type DestinationUpdate = z.input<typeof DestinationUpdateSchema>;
export type DestinationSecret = z.infer<typeof DestinationSecretSchema>;
export type Event = z.infer<typeof EventSchema>;
export type EventDetail = z.infer<typeof EventDetailSchema>;
export type Attempt = z.infer<typeof AttemptSchema>;
export type Facets = z.infer<typeof FacetsSchema>;
export type ReplayToAll = z.infer<typeof ReplayAllSchema>;
export type ReplayToOne = z.infer<typeof ReplayOneSchema>;

export interface List<Item> {
  readonly data: Item[];
  readonly pagination: Pagination;
}

export interface Paging {
  readonly page?: number;
  readonly limit?: number;
}

export interface EventFilters {
  readonly endpoint_id?: string;
  readonly provider?: Provider;
  readonly signature_valid?: boolean;
  /** RFC 3339, inclusive. */
  readonly from?: string;
  /** RFC 3339, exclusive. */
  readonly to?: string;
  readonly q?: string;
  /** Requires `value`. */
  readonly field?: string;
  readonly value?: string;
  readonly attempt_status?: AttemptStatus;
  readonly destination_id?: string;
}

export interface EventSearch extends EventFilters, Paging {
  readonly delivery_summary?: boolean;
}
