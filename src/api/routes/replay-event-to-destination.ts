import { defineOperation } from "../operation.ts";
import { noBody, noQuery } from "../schemas/common.ts";
import { ReplayOneSchema } from "../schemas/event.ts";

export const replayEventToDestination = defineOperation({
  operationId: "replayEventToDestination",
  method: "post",
  path: "/events/{eventId}/destinations/{destinationId}/replay",
  tag: "Events",
  summary: "Replay an event to one destination",
  description:
    "Enqueues the stored payload again to one destination of the event's endpoint. For a paused or disabled one it waits for the resume.",
  scope: "write",
  ids: { eventId: "event", destinationId: "destination" },
  query: noQuery,
  body: noBody,
  success: { status: 200, description: "What was enqueued.", schema: ReplayOneSchema },
  waitsElsewhere: true,
  errors: ["payload_not_stored"],
  async handle({ actor, management, ids }) {
    const replay = await management.replays.toOne(actor, ids.eventId, ids.destinationId);
    return { data: { event_id: replay.eventId, destination_id: replay.destinationId } };
  },
});
