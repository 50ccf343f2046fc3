import { MAX_WHOLE_BODY_TEXT } from "../../domain/response-body.ts";
import { found } from "../../management/not-found.ts";
import { defineOperation } from "../operation.ts";
import { presentEventDetail } from "../presenters/present-events.ts";
import { noBody, noQuery } from "../schemas/common.ts";
import { EventDetailSchema } from "../schemas/event.ts";

export const getEvent = defineOperation({
  operationId: "getEvent",
  method: "get",
  path: "/events/{eventId}",
  tag: "Events",
  summary: "Get an event",
  description: `The event with its raw payload and every delivery attempt, whose response bodies beyond the newest ${MAX_WHOLE_BODY_TEXT} are cut. An event younger than 10 s is waited for, up to 2 s; so is its fan-out, within the same time, when it is younger than 5 s.`,
  scope: "read",
  ids: { eventId: "event" },
  query: noQuery,
  body: noBody,
  success: { status: 200, description: "The event.", schema: EventDetailSchema },
  errors: [],
  async handle({ actor, queries, ids, beforeLarge }) {
    const detail = found(await queries.detail(actor.orgId, ids.eventId, beforeLarge), "event");
    return { data: await presentEventDetail(detail) };
  },
});
