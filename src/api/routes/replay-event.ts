import { defineOperation } from "../operation.ts";
import { noBody, noQuery } from "../schemas/common.ts";
import { ReplayAllSchema } from "../schemas/event.ts";

export const replayEvent = defineOperation({
  operationId: "replayEvent",
  method: "post",
  path: "/events/{eventId}/replay",
  tag: "Events",
  summary: "Replay an event to all active destinations",
  description:
    "Enqueues the stored payload again to every active destination of the event's endpoint. Rejected events can be replayed too; an event whose payload was not stored (answered 413 or 429) cannot.",
  scope: "write",
  ids: { eventId: "event" },
  query: noQuery,
  body: noBody,
  success: { status: 200, description: "What was enqueued.", schema: ReplayAllSchema },
  waitsElsewhere: true,
  errors: ["payload_not_stored"],
  async handle({ actor, management, ids }) {
    const replay = await management.replays.toAll(actor, ids.eventId);
    return {
      data: {
        event_id: replay.eventId,
        enqueued: replay.enqueued.map((destinationId) => ({ destination_id: destinationId })),
      },
    };
  },
});
