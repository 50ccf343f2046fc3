import { defineOperation } from "../operation.ts";
import { noBody, noQuery } from "../schemas/common.ts";
import { TestResultSchema } from "../schemas/endpoint.ts";

export const testEndpoint = defineOperation({
  operationId: "testEndpoint",
  method: "post",
  path: "/endpoints/{id}/test",
  tag: "Endpoints",
  summary: "Send a test webhook",
  description:
    "Signs a sample payload with the endpoint's own settings and posts it to its public ingest URL, so it passes through rate limiting, verification and fan-out and is recorded. Not for ip_allowlist, jwt and twilio_signature: send a real provider event there.",
  scope: "write",
  ids: { id: "endpoint" },
  query: noQuery,
  body: noBody,
  success: { status: 200, description: "What the ingest answered.", schema: TestResultSchema },
  waitsElsewhere: true,
  errors: ["endpoint_not_testable", "endpoint_paused", "ingest_unreachable"],
  async handle({ actor, management, ids }) {
    const result = await management.endpoints.sendTest(actor, ids.id);
    return {
      data: {
        accepted: result.accepted,
        status: result.status,
        event_id: result.eventId,
        error: result.error,
        url: result.url,
      },
    };
  },
});
