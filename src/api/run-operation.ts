import { RelayError } from "../domain/errors.ts";
import type { EventQueries } from "../domain/event-query.ts";
import { nextTurn } from "../domain/next-turn.ts";
import { timeOfId } from "../domain/ids.ts";
import type { IdKind } from "../domain/ids.ts";
import type { Actor, Management } from "../management/management.ts";
import { notFoundMessage } from "../management/not-found.ts";
import { requireJsonAccepted } from "./accept.ts";
import { ApiFailure } from "./api-failure.ts";
import { authenticate, requireScope } from "./auth.ts";
import type { BodyRoom } from "./body-room.ts";
import type { BodyTurn } from "./body-turns.ts";
import { formatTimestamp, jsonResponse } from "./envelope.ts";
import type { LargeAnswers } from "./large-answers.ts";
import type { AnyOperation } from "./operation.ts";
import { parseInput } from "./parse-input.ts";
import { readJsonBody, refuseBody } from "./read-body.ts";
import { readQuery } from "./read-query.ts";
import { noBody } from "./schemas/common.ts";
import { writeJson } from "./write-json.ts";
import type { WriteInTurn } from "./write-turns.ts";

/** Returns the seconds that this caller must wait, or null to let the request through. */
export type LimitRequests = (actor: Actor) => number | null;

export interface OperationPorts {
  readonly management: Management;
  readonly queries: EventQueries;
  readonly limitRequests: LimitRequests;
  readonly writeInTurn: WriteInTurn;
  readonly bodyTurn: BodyTurn;
  readonly bodyRoom: BodyRoom;
  readonly largeAnswers: LargeAnswers;
  readonly now: () => number;
}

/** A request as the router hands it over. */
export interface RoutedRequest {
  readonly request: Request;
  readonly pathParameter: (name: string) => string;
  /** Called as soon as the actor is known, for the log. */
  readonly onActor: (actor: Actor) => void;
}

/**
 * Runs an operation after every check, in order: key (401), scope (403), rate (429), Accept (406), query and
 * body (400, 413, 415), ids (404).
 * @throws {ApiFailure} @throws {RelayError}
 */
export async function runOperation(
  operation: AnyOperation,
  ports: OperationPorts,
  routed: RoutedRequest,
): Promise<Response> {
  const { request } = routed;
  const actor = await authenticate(request.headers.get("authorization"), ports.management);
  routed.onActor(actor);
  requireScope(actor, operation.scope);
  const waitSeconds = ports.limitRequests(actor);
  if (waitSeconds !== null)
    throw new ApiFailure("rate_limited", "Too many requests with this API key.", {
      headers: { "retry-after": String(Math.max(1, Math.ceil(waitSeconds))) },
    });
  requireJsonAccepted(request.headers.get("accept"));
  const query = parseInput(operation.query, readQuery(rawQueryOf(request.url)), "query");
  const body = await readBody(operation, request, ports, actor.orgId);
  const ids = readIds(operation.ids, routed.pathParameter);
  const { management, queries } = ports;
  using largeAnswer = ports.largeAnswers(actor.orgId);
  const handle = async () =>
    operation.handle({
      actor,
      management,
      queries,
      ids,
      query,
      body,
      inTurn: (work) => ports.writeInTurn(actor.orgId, work),
      beforeLarge: async () => {
        await largeAnswer.take();
        endWithClient(request);
      },
      // A getter: few handlers need it, and the server makes a whole request and its controller for those that do.
      get signal() {
        return request.signal;
      },
    });
  const isWrite = operation.method !== "get" && operation.waitsElsewhere !== true;
  const result = await (isWrite ? ports.writeInTurn(actor.orgId, handle) : handle());
  if (result === undefined) return new Response(null, { status: operation.success.status });
  const { data, pagination } = result;
  const answer = { data, pagination, timestamp: formatTimestamp(ports.now()) };
  const json = await writeJson(answer, async () => {
    await nextTurn();
    endWithClient(request);
  });
  return jsonResponse(json, operation.success.status);
}

/** @throws {RelayError} which nobody reads, when the client has gone */
function endWithClient({ signal }: Request): void {
  if (signal.aborted) throw new RelayError("unavailable", "The client has gone");
}

async function readBody(
  operation: AnyOperation,
  request: Request,
  { bodyTurn, bodyRoom }: Pick<OperationPorts, "bodyTurn" | "bodyRoom">,
  orgId: string,
): Promise<unknown> {
  using share = bodyRoom(orgId);
  if (operation.body !== noBody)
    return parseInput(operation.body, await readJsonBody(request, bodyTurn, share), "body");
  if (operation.method !== "get") await refuseBody(request, bodyTurn, share);
  return undefined;
}

/** Reads the ids. A malformed one never reaches a store and is answered like an unknown one. */
function readIds(
  kinds: Readonly<Record<string, IdKind>>,
  pathParameter: (name: string) => string,
): Record<string, string> {
  const ids: Record<string, string> = {};
  for (const [name, kind] of Object.entries(kinds)) {
    const value = pathParameter(name);
    if (timeOfId(kind, value) === null) throw new RelayError("not_found", notFoundMessage(kind));
    ids[name] = value;
  }
  return ids;
}

function rawQueryOf(url: string): string {
  const at = url.indexOf("?");
  return at < 0 ? "" : (url.slice(at + 1).split("#")[0] ?? "");
}
