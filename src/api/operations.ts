import type { AnyOperation } from "./operation.ts";
import { countFacets } from "./routes/count-facets.ts";
import { createDestination } from "./routes/create-destination.ts";
import { createEndpoint } from "./routes/create-endpoint.ts";
import { createProject } from "./routes/create-project.ts";
import { deleteDestination } from "./routes/delete-destination.ts";
import { deleteEndpoint } from "./routes/delete-endpoint.ts";
import { deleteProject } from "./routes/delete-project.ts";
import { getDestination } from "./routes/get-destination.ts";
import { getEndpoint } from "./routes/get-endpoint.ts";
import { getEvent } from "./routes/get-event.ts";
import { getProject } from "./routes/get-project.ts";
import { listAttempts } from "./routes/list-attempts.ts";
import { listDestinations } from "./routes/list-destinations.ts";
import { listEndpoints } from "./routes/list-endpoints.ts";
import { listEvents } from "./routes/list-events.ts";
import { listProjects } from "./routes/list-projects.ts";
import { pauseDestination } from "./routes/pause-destination.ts";
import { pauseEndpoint } from "./routes/pause-endpoint.ts";
import { replayEventToDestination } from "./routes/replay-event-to-destination.ts";
import { replayEvent } from "./routes/replay-event.ts";
import { resumeDestination } from "./routes/resume-destination.ts";
import { resumeEndpoint } from "./routes/resume-endpoint.ts";
import { rotateDestinationSecret } from "./routes/rotate-destination-secret.ts";
import { rotateEndpointSecret } from "./routes/rotate-endpoint-secret.ts";
import { testEndpoint } from "./routes/test-endpoint.ts";
import { updateDestination } from "./routes/update-destination.ts";
import { updateEndpoint } from "./routes/update-endpoint.ts";
import { updateProject } from "./routes/update-project.ts";

/** All operations, in the order of the document. A fixed path comes before one with a parameter in the same place. */
export const OPERATIONS: readonly AnyOperation[] = [
  listProjects,
  createProject,
  getProject,
  updateProject,
  deleteProject,
  listEndpoints,
  createEndpoint,
  getEndpoint,
  updateEndpoint,
  deleteEndpoint,
  testEndpoint,
  pauseEndpoint,
  resumeEndpoint,
  rotateEndpointSecret,
  listDestinations,
  createDestination,
  getDestination,
  updateDestination,
  deleteDestination,
  pauseDestination,
  resumeDestination,
  rotateDestinationSecret,
  listEvents,
  countFacets,
  getEvent,
  listAttempts,
  replayEvent,
  replayEventToDestination,
];
