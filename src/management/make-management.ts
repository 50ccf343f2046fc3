import { makeAuthenticate } from "./authenticate.ts";
import { makeDestinations } from "./destinations.ts";
import { makeEndpoints } from "./endpoints.ts";
import type { Management } from "./management.ts";
import type { ManagementOptions, ManagementPorts } from "./ports.ts";
import { makeProjects } from "./projects.ts";
import { makeReplays } from "./replays.ts";
import { makeSendTest } from "./send-test.ts";

/** Makes the use cases behind the management API, over a store, the log and the guard of receiver URLs. */
export function makeManagement(ports: ManagementPorts, options: ManagementOptions): Management {
  return {
    authenticate: makeAuthenticate(ports.keys, ports.clock),
    projects: makeProjects(ports),
    endpoints: { ...makeEndpoints(ports, options), sendTest: makeSendTest(ports, options) },
    destinations: makeDestinations(ports, options),
    replays: makeReplays(ports),
  };
}
