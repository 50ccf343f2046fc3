import { z } from "@hono/zod-openapi";
import { MAX_WHOLE_BODY_TEXT } from "../../domain/response-body.ts";
import { found } from "../../management/not-found.ts";
import { defineOperation } from "../operation.ts";
import { presentAttempts } from "../presenters/present-events.ts";
import { noBody, noQuery } from "../schemas/common.ts";
import { AttemptSchema } from "../schemas/event.ts";

export const listAttempts = defineOperation({
  operationId: "listAttempts",
  method: "get",
  path: "/events/{eventId}/attempts",
  tag: "Events",
  summary: "List an event's delivery attempts",
  description: `All of them, oldest first, without pagination. Response bodies beyond the newest ${MAX_WHOLE_BODY_TEXT} are cut.`,
  scope: "read",
  ids: { eventId: "event" },
  query: noQuery,
  body: noBody,
  success: { status: 200, description: "The attempts.", schema: z.array(AttemptSchema) },
  errors: [],
  async handle({ actor, queries, ids }) {
    const attempts = found(await queries.attempts(actor.orgId, ids.eventId), "event");
    return { data: await presentAttempts(attempts) };
  },
});
