import { makeSendRequest, segment } from "./send-request.ts";
import type { ClientOptions } from "./send-request.ts";
import type {
  Attempt,
  CreatedDestination,
  Destination,
  DestinationCreate,
  DestinationSecret,
  DestinationUpdate,
  Endpoint,
  EndpointCreate,
  EndpointSecret,
  EndpointUpdate,
  Event,
  EventDetail,
  EventFilters,
  EventSearch,
  Facets,
  List,
  Paging,
  Project,
  ProjectCreate,
  ProjectUpdate,
  ReplayToAll,
  ReplayToOne,
  TestResult,
} from "./types.ts";

export type Client = ReturnType<typeof makeClient>;

/** Makes a client with one method per operation of the management API. @throws {ApiError} from each */
export function makeClient(options: ClientOptions) {
  const send = makeSendRequest(options);
  /** Returns the envelope's `data`. The types are those of the schemas that the service answers with. */
  const data = async <Data>(...request: Parameters<typeof send>): Promise<Data> =>
    ((await send(...request)) as { readonly data: Data }).data;
  const list = async <Item>(path: string, query: object = {}): Promise<List<Item>> => {
    const answer = (await send("GET", path, { query })) as List<Item>;
    return { data: answer.data, pagination: answer.pagination };
  };
  const remove = async (path: string): Promise<void> => void (await send("DELETE", path));
  const projects = "/projects";
  const project = (id: string) => `/projects/${segment(id)}`;
  const endpoint = (id: string) => `/endpoints/${segment(id)}`;
  const destination = (id: string) => `/destinations/${segment(id)}`;
  const event = (id: string) => `/events/${segment(id)}`;
  return {
    projects: {
      list: (paging?: Paging) => list<Project>(projects, paging),
      create: (body: ProjectCreate) => data<Project>("POST", projects, { body }),
      get: (id: string) => data<Project>("GET", project(id)),
      update: (id: string, body: ProjectUpdate) => data<Project>("PATCH", project(id), { body }),
      delete: (id: string) => remove(project(id)),
    },
    endpoints: {
      list: (projectId: string, paging?: Paging) =>
        list<Endpoint>(`${project(projectId)}/endpoints`, paging),
      create: (projectId: string, body: EndpointCreate) =>
        data<Endpoint>("POST", `${project(projectId)}/endpoints`, { body }),
      get: (id: string) => data<Endpoint>("GET", endpoint(id)),
      update: (id: string, body: EndpointUpdate) => data<Endpoint>("PATCH", endpoint(id), { body }),
      delete: (id: string) => remove(endpoint(id)),
      test: (id: string) => data<TestResult>("POST", `${endpoint(id)}/test`),
      pause: (id: string) => data<Endpoint>("POST", `${endpoint(id)}/pause`),
      resume: (id: string) => data<Endpoint>("POST", `${endpoint(id)}/resume`),
      rotateSecret: (id: string) => data<EndpointSecret>("POST", `${endpoint(id)}/rotate-secret`),
    },
    destinations: {
      list: (endpointId: string, paging?: Paging) =>
        list<Destination>(`${endpoint(endpointId)}/destinations`, paging),
      create: (endpointId: string, body: DestinationCreate) =>
        data<CreatedDestination>("POST", `${endpoint(endpointId)}/destinations`, { body }),
      get: (id: string) => data<Destination>("GET", destination(id)),
      update: (id: string, body: DestinationUpdate) =>
        data<Destination>("PATCH", destination(id), { body }),
      delete: (id: string) => remove(destination(id)),
      pause: (id: string) => data<Destination>("POST", `${destination(id)}/pause`),
      resume: (id: string) => data<Destination>("POST", `${destination(id)}/resume`),
      rotateSecret: (id: string) =>
        data<DestinationSecret>("POST", `${destination(id)}/rotate-secret`),
    },
    events: {
      search: (search?: EventSearch) => list<Event>("/events", search),
      facets: (query: EventFilters = {}) => data<Facets>("GET", "/events/facets", { query }),
      get: (id: string) => data<EventDetail>("GET", event(id)),
      attempts: (id: string) => data<Attempt[]>("GET", `${event(id)}/attempts`),
      replay: (id: string) => data<ReplayToAll>("POST", `${event(id)}/replay`),
      replayTo: (id: string, destinationId: string) =>
        data<ReplayToOne>("POST", `${event(id)}/destinations/${segment(destinationId)}/replay`),
    },
  };
}
