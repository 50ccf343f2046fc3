/**
 * The specification's operations and statuses as its tables of operations (success) and errors list them.
 * Ids are named after their kind, so that one filler serves all paths.
 */
export const SPECIFICATION: Readonly<Record<string, readonly number[]>> = {
  "GET /projects": [200],
  "POST /projects": [201, 409],
  "GET /projects/{projectId}": [200, 404],
  "PATCH /projects/{projectId}": [200, 404, 409],
  "DELETE /projects/{projectId}": [204, 404, 409],
  "GET /projects/{projectId}/endpoints": [200, 404],
  "POST /projects/{projectId}/endpoints": [201, 404],
  "GET /endpoints/{endpointId}": [200, 404],
  "PATCH /endpoints/{endpointId}": [200, 404],
  "DELETE /endpoints/{endpointId}": [204, 404],
  "POST /endpoints/{endpointId}/test": [200, 400, 404, 409, 503],
  "POST /endpoints/{endpointId}/pause": [200, 404],
  "POST /endpoints/{endpointId}/resume": [200, 404],
  "POST /endpoints/{endpointId}/rotate-secret": [200, 400, 404],
  "GET /endpoints/{endpointId}/destinations": [200, 404],
  "POST /endpoints/{endpointId}/destinations": [201, 404],
  "GET /destinations/{destinationId}": [200, 404],
  "PATCH /destinations/{destinationId}": [200, 404],
  "DELETE /destinations/{destinationId}": [204, 404],
  "POST /destinations/{destinationId}/pause": [200, 404],
  "POST /destinations/{destinationId}/resume": [200, 404],
  "POST /destinations/{destinationId}/rotate-secret": [200, 404],
  "GET /events": [200],
  "GET /events/facets": [200],
  "GET /events/{eventId}": [200, 404],
  "GET /events/{eventId}/attempts": [200, 404],
  "POST /events/{eventId}/replay": [200, 404],
  "POST /events/{eventId}/destinations/{destinationId}/replay": [200, 404],
};
