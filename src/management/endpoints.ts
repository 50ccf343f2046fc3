import type { EndpointRow, StoreSession } from "../domain/config-store.ts";
import type { ResourceStatus } from "../domain/enums.ts";
import { RelayError } from "../domain/errors.ts";
import { rotateSecret } from "../signing/rotation.ts";
import type { VerificationSettings } from "../domain/verification.ts";
import { makeChangeRow } from "./change-row.ts";
import { changesOf } from "./changes-of.ts";
import { noteWrite } from "./audit.ts";
import { decideVerification } from "./endpoint-rules.ts";
import { atOnce } from "./in-turn.ts";
import { ingestUrlOf } from "./ingest-url.ts";
import type { Actor, Endpoint, EndpointInput, Management } from "./management.ts";
import { isSameJson } from "./is-same-json.ts";
import { found } from "./not-found.ts";
import { mapPage, toOffset } from "./pages.ts";
import type { ManagementOptions, ManagementPorts } from "./ports.ts";
import { refuseBadUrl } from "./refuse-bad-url.ts";
import { openEndpoint, sealEndpoint } from "./sealed-secrets.ts";

type EndpointPorts = Pick<
  ManagementPorts,
  "store" | "box" | "checkReceiver" | "tokens" | "now" | "newId" | "randomBytes"
>;

export function makeEndpoints(
  { store, box, checkReceiver, tokens, now, newId, randomBytes }: EndpointPorts,
  options: Pick<ManagementOptions, "publicIngestUrl">,
): Omit<Management["endpoints"], "sendTest"> {
  const toEndpoint = (row: EndpointRow): Endpoint => ({
    id: row.id,
    projectId: row.projectId,
    orgId: row.orgId,
    name: row.name,
    provider: row.provider,
    verificationMethod: row.verificationMethod,
    status: row.status,
    url: ingestUrlOf(options.publicIngestUrl, row.token),
    createdAtMs: row.createdAtMs,
    updatedAtMs: row.updatedAtMs,
    deletedAtMs: null,
  });

  const change = makeChangeRow<EndpointRow>(
    { store, now },
    "endpoint",
    (session) => session.endpoints,
  );

  async function setStatus(actor: Actor, id: string, status: ResourceStatus, action: string) {
    return toEndpoint(await change(actor, id, action, (row) => changesOf(row, { status })));
  }

  async function refuseBadKeySource(config: EndpointInput["verificationConfig"]): Promise<void> {
    const url = config?.["jwks_url"];
    if (typeof url === "string")
      await refuseBadUrl(checkReceiver, "verification_config.jwks_url", url);
  }

  return {
    async list(actor, projectId, page) {
      const rows = await store.endpoints.page(actor.orgId, projectId, toOffset(page));
      // Where there are children there is a parent, so one query is enough unless the list is empty.
      if (rows.total === 0) found(await store.projects.find(actor.orgId, projectId), "project");
      return mapPage(rows, toEndpoint);
    },
    async get(actor, id) {
      return toEndpoint(found(await store.endpoints.find(actor.orgId, id), "endpoint"));
    },
    async create(actor, projectId, input, inTurn = atOnce) {
      await refuseBadKeySource(input.verificationConfig);
      const write = async (session: StoreSession) => {
        found(await session.projects.hold(actor.orgId, projectId), "project");
        const settings = decideVerification(null, input);
        const atMs = now();
        const id = newId("endpoint", atMs);
        const row: EndpointRow = {
          id,
          orgId: actor.orgId,
          projectId,
          token: tokens.mint(),
          name: input.name,
          provider: settings.provider,
          verificationMethod: settings.method,
          methodIsExplicit: settings.methodIsExplicit,
          status: "active",
          sealed: sealEndpoint(box, id, settings),
          createdAtMs: atMs,
          updatedAtMs: atMs,
        };
        await session.endpoints.insert(row);
        await noteWrite(session, actor, "endpoint.create", id, atMs);
        return toEndpoint(row);
      };
      return inTurn(() => store.write(write));
    },
    async update(actor, id, input, inTurn = atOnce) {
      await refuseBadKeySource(input.verificationConfig);
      const decide = (row: EndpointRow) => {
        const { name, ...verification } = input;
        if (Object.values(verification).every((value) => value === undefined))
          return changesOf(row, { name });
        const current = openEndpoint(box, row);
        const settings = decideVerification(current, verification);
        // Sealing equal secrets again would give different bytes.
        if (isSameJson(settings, current)) return changesOf(row, { name });
        const { provider, method: verificationMethod, methodIsExplicit } = settings;
        return {
          ...changesOf(row, { name, provider, verificationMethod, methodIsExplicit }),
          sealed: sealEndpoint(box, id, settings),
        };
      };
      return toEndpoint(await inTurn(() => change(actor, id, "endpoint.update", decide)));
    },
    async remove(actor, id) {
      await store.write(async (session) => {
        found(await session.endpoints.lock(actor.orgId, id), "endpoint");
        const atMs = now();
        await session.destinations.removeChildren(actor.orgId, id, atMs);
        await session.endpoints.remove(actor.orgId, id, atMs);
        await noteWrite(session, actor, "endpoint.delete", id, atMs);
      });
    },
    pause: async (actor, id) => setStatus(actor, id, "paused", "endpoint.pause"),
    resume: async (actor, id) => setStatus(actor, id, "active", "endpoint.resume"),
    async rotateSecret(actor, id) {
      let secret = "";
      await change(actor, id, "endpoint.rotate_secret", (row) => {
        const settings = openEndpoint(box, row);
        secret = makeNextSecret(settings, randomBytes);
        return { sealed: sealEndpoint(box, id, { secret, config: settings.config }) };
      });
      return { id, secret };
    },
  };
}

function makeNextSecret(
  settings: VerificationSettings,
  randomBytes: (size: number) => Uint8Array,
): string {
  const rotated = rotateSecret(settings, randomBytes);
  if (rotated.ok) return rotated.secret;
  throw new RelayError(
    "rotation_not_supported",
    `The secret of this endpoint cannot be rotated here: ${rotated.message}`,
  );
}
