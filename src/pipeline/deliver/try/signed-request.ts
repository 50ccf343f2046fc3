import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import { MAX_SIGNING_SECRETS } from "../../../domain/destination.ts";
import type { DestinationConfig, SigningSecret } from "../../../domain/destination.ts";
import { forwardedHeaders } from "./forwarded-headers.ts";
import type { DeliveryPorts } from "../ports.ts";
import type { OutboundRequest } from "../../../domain/outbound-request.ts";
import { userAgentOf } from "../../../domain/user-agent.ts";

/** Returns the secrets that sign at `nowMs`, newest first: the current one, and rotated ones within their overlap. */
export function activeSecrets(secrets: readonly SigningSecret[], nowMs: number): string[] {
  return secrets
    .filter(({ signsUntilMs }) => signsUntilMs === null || signsUntilMs > nowMs)
    .slice(0, MAX_SIGNING_SECRETS)
    .map(({ secret }) => secret);
}

/** Makes the request of one try: the raw body, signed as Standard Webhooks says, with a new timestamp on every try. */
export function makeSignedRequest(
  task: DeliveryTask,
  config: DestinationConfig,
  nowMs: number,
  version: string,
  signDelivery: DeliveryPorts["signDelivery"],
): OutboundRequest {
  const { event } = task;
  const timestampSeconds = Math.floor(nowMs / 1000);
  return {
    url: config.receiverUrl,
    body: event.body,
    headers: [
      ...forwardedHeaders(event.headers, config.signatureHeaders, config.forwardOriginalSignature),
      ["webhook-id", event.id],
      ["webhook-timestamp", String(timestampSeconds)],
      [
        "webhook-signature",
        signDelivery({
          id: event.id,
          timestampSeconds,
          body: event.body,
          secrets: activeSecrets(config.secrets, nowMs),
        }),
      ],
      ["user-agent", userAgentOf(version)],
      ["x-relay-attempt", String(task.tryNumber)],
      ["x-relay-trigger", task.trigger],
      ["x-relay-endpoint-id", event.endpointId],
      ["x-relay-destination-id", task.destinationId],
    ],
  };
}
