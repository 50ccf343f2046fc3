import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import type { DestinationConfig } from "../../../domain/destination.ts";
import { concludeTry, isGone } from "./conclude.ts";
import type { Conclusion } from "./conclude.ts";
import type { Reply } from "../../../domain/outbound-request.ts";
import type { SharedDelivery } from "../shared-delivery.ts";
import { makeSignedRequest } from "./signed-request.ts";
import { messageOf } from "../../../domain/thrown.ts";

/**
 * Makes one request. `reply` frees the lane, `conclusion` is what to record; both are null if the process cut the try off,
 * since it is then unknown whether the receiver took it.
 */
export function sendTry(
  shared: SharedDelivery,
  task: DeliveryTask,
  config: DestinationConfig,
  onSent: () => void,
): { readonly reply: Promise<Reply | null>; readonly conclusion: Promise<Conclusion | null> } {
  const begun: BegunTry = { shared, task, config, startedAtMs: shared.ports.clock.now() };
  const reply = send(begun, onSent);
  return { reply, conclusion: conclude(begun, reply) };
}

interface BegunTry {
  readonly shared: SharedDelivery;
  readonly task: DeliveryTask;
  readonly config: DestinationConfig;
  /** Wall clock, ms. */
  readonly startedAtMs: number;
}

async function send(
  { shared, task, config, startedAtMs }: BegunTry,
  onSent: () => void,
): Promise<Reply | null> {
  const { ports, options, cutOff } = shared;
  const startedMs = ports.clock.monotonic();
  try {
    const request = makeSignedRequest(
      task,
      config,
      startedAtMs,
      options.version,
      ports.signDelivery,
    );
    const reply = await ports.send(request, cutOff, onSent);
    return cutOff.aborted && reply.kind !== "response" ? null : reply;
  } catch (error) {
    if (cutOff.aborted) return null;
    ports.logger.error({ destinationId: task.destinationId, err: error }, "delivery.send_failed");
    return {
      kind: "error",
      reason: messageOf(error),
      latencyMs: ports.clock.monotonic() - startedMs,
    };
  }
}

async function conclude(
  { shared, task, config, startedAtMs }: BegunTry,
  replied: Promise<Reply | null>,
): Promise<Conclusion | null> {
  const { ports, options } = shared;
  const reply = await replied;
  if (reply === null) return null;
  if (isGone(reply)) void disable(shared, config, startedAtMs);
  return concludeTry({
    task,
    config,
    reply,
    startedAtMs,
    nowMs: ports.clock.now(),
    retryBaseMs: options.retryBaseMs,
    random: ports.random,
  });
}

async function disable(
  shared: SharedDelivery,
  config: DestinationConfig,
  triedAtMs: number,
): Promise<void> {
  const { id, receiverUrl } = config;
  try {
    await shared.ports.disableDestination(id, receiverUrl, triedAtMs);
  } catch (error) {
    // The next try gets a 410 again, and with it another chance.
    shared.ports.logger.error({ destinationId: id, err: error }, "destination.disable_failed");
  }
}
