import type { DestinationRow, StoreSession } from "../domain/config-store.ts";
import type { ResourceStatus } from "../domain/enums.ts";
import { RelayError } from "../domain/errors.ts";
import { MAX_RECEIVER_URL, toUri } from "../domain/receiver-url.ts";
import { makeServiceSecret } from "../signing/standard-webhooks.ts";
import { makeChangeRow } from "./change-row.ts";
import { changesOf } from "./changes-of.ts";
import { noteWrite } from "./audit.ts";
import { refuseHalfRateLimit, rotateSecrets } from "./destination-rules.ts";
import { atOnce } from "./in-turn.ts";
import type { Actor, Destination, Management } from "./management.ts";
import { found } from "./not-found.ts";
import { mapPage, toOffset } from "./pages.ts";
import type { ManagementOptions, ManagementPorts } from "./ports.ts";
import { refuseBadUrl } from "./refuse-bad-url.ts";
import { openDestination, sealDestination } from "./sealed-secrets.ts";

type DestinationPorts = Pick<
  ManagementPorts,
  "store" | "box" | "checkReceiver" | "now" | "newId" | "randomBytes"
>;

const DEFAULTS = {
  forwardOriginalSignature: false,
  retryMaxAttempts: 5,
  retryBackoff: "exponential",
  rateLimitMax: null,
  rateLimitWindow: null,
} as const;

export function makeDestinations(
  { store, box, checkReceiver, now, newId, randomBytes }: DestinationPorts,
  options: Pick<ManagementOptions, "rotationOverlapMs">,
): Management["destinations"] {
  const change = makeChangeRow<DestinationRow>(
    { store, now },
    "destination",
    (session) => session.destinations,
  );

  async function setStatus(actor: Actor, id: string, status: ResourceStatus, action: string) {
    return toDestination(await change(actor, id, action, (row) => changesOf(row, { status })));
  }

  /** @returns the URL as it is stored, answered and dialled */
  async function checkedReceiver(url: string): Promise<string> {
    await refuseBadUrl(checkReceiver, "receiver_url", url);
    const uri = toUri(url);
    // A URL that the API has returned must be accepted when written back.
    if (uri.length > MAX_RECEIVER_URL)
      throw new RelayError(
        "validation_error",
        `receiver_url: must have at most ${MAX_RECEIVER_URL} characters when it is percent-encoded`,
        { field: "receiver_url" },
      );
    return uri;
  }

  return {
    async list(actor, endpointId, page) {
      const rows = await store.destinations.page(actor.orgId, endpointId, toOffset(page));
      // Where there are children there is a parent, so one query is enough unless the list is empty.
      if (rows.total === 0) found(await store.endpoints.find(actor.orgId, endpointId), "endpoint");
      return mapPage(rows, toDestination);
    },
    async get(actor, id) {
      return toDestination(found(await store.destinations.find(actor.orgId, id), "destination"));
    },
    async create(actor, endpointId, input, inTurn = atOnce) {
      found(await store.endpoints.find(actor.orgId, endpointId), "endpoint");
      const limit = {
        rateLimitMax: input.rateLimitMax ?? DEFAULTS.rateLimitMax,
        rateLimitWindow: input.rateLimitWindow ?? DEFAULTS.rateLimitWindow,
      };
      refuseHalfRateLimit(limit);
      const receiverUrl = await checkedReceiver(input.receiverUrl);
      const serviceSecret = makeServiceSecret(randomBytes);
      const write = async (session: StoreSession) => {
        found(await session.endpoints.hold(actor.orgId, endpointId), "endpoint");
        const atMs = now();
        const id = newId("destination", atMs);
        const row: DestinationRow = {
          id,
          orgId: actor.orgId,
          endpointId,
          name: input.name,
          receiverUrl,
          forwardOriginalSignature:
            input.forwardOriginalSignature ?? DEFAULTS.forwardOriginalSignature,
          status: "active",
          retryMaxAttempts: input.retryMaxAttempts ?? DEFAULTS.retryMaxAttempts,
          retryBackoff: input.retryBackoff ?? DEFAULTS.retryBackoff,
          ...limit,
          sealed: sealDestination(box, id, [{ secret: serviceSecret, signsUntilMs: null }]),
          createdAtMs: atMs,
          updatedAtMs: atMs,
        };
        await session.destinations.insert(row);
        await noteWrite(session, actor, "destination.create", id, atMs);
        return { destination: toDestination(row), serviceSecret };
      };
      return inTurn(() => store.write(write));
    },
    async update(actor, id, input, inTurn = atOnce) {
      let wanted = input;
      if (input.receiverUrl !== undefined) {
        found(await store.destinations.find(actor.orgId, id), "destination");
        wanted = { ...input, receiverUrl: await checkedReceiver(input.receiverUrl) };
      }
      const decide = (row: DestinationRow) => {
        const changes = changesOf(row, wanted);
        refuseHalfRateLimit({ ...row, ...changes });
        return changes;
      };
      return toDestination(await inTurn(() => change(actor, id, "destination.update", decide)));
    },
    async remove(actor, id) {
      await store.write(async (session) => {
        found(await session.destinations.lock(actor.orgId, id), "destination");
        const atMs = now();
        await session.destinations.remove(actor.orgId, id, atMs);
        await noteWrite(session, actor, "destination.delete", id, atMs);
      });
    },
    pause: async (actor, id) => setStatus(actor, id, "paused", "destination.pause"),
    resume: async (actor, id) => setStatus(actor, id, "active", "destination.resume"),
    async rotateSecret(actor, id) {
      const serviceSecret = makeServiceSecret(randomBytes);
      await change(actor, id, "destination.rotate_secret", (row, atMs) => {
        const secrets = openDestination(box, row);
        const rotated = rotateSecrets(secrets, serviceSecret, atMs, options.rotationOverlapMs);
        return { sealed: sealDestination(box, id, rotated) };
      });
      return { id, serviceSecret };
    },
  };
}

function toDestination(row: DestinationRow): Destination {
  return {
    id: row.id,
    endpointId: row.endpointId,
    orgId: row.orgId,
    name: row.name,
    receiverUrl: row.receiverUrl,
    forwardOriginalSignature: row.forwardOriginalSignature,
    status: row.status,
    retryMaxAttempts: row.retryMaxAttempts,
    retryBackoff: row.retryBackoff,
    rateLimitMax: row.rateLimitMax,
    rateLimitWindow: row.rateLimitWindow,
    createdAtMs: row.createdAtMs,
    updatedAtMs: row.updatedAtMs,
    deletedAtMs: null,
  };
}
