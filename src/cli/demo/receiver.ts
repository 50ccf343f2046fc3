import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

interface ReceivedDelivery {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly answered: number;
}

export interface DemoReceiver extends AsyncDisposable {
  readonly baseUrl: string;
  readonly deliveries: readonly ReceivedDelivery[];
}

/** Failures before `/flaky` answers 200. */
export const FLAKY_FAILURES = 2;

/**
 * Starts a customer's receiver on loopback: `/ok` accepts everything, `/flaky` fails the first tries of each event, `/dead` always fails.
 */
export async function startDemoReceiver(): Promise<DemoReceiver> {
  const deliveries: ReceivedDelivery[] = [];
  const server = createServer((request, response) => {
    buffer(request).then(
      (body) => {
        const path = request.url ?? "/";
        const headers = flatten(request);
        const answered = statusFor(path, headers["webhook-id"] ?? "", deliveries);
        deliveries.push({ path, headers, body, answered });
        response
          .writeHead(answered, { "content-type": "text/plain" })
          .end(answered === 200 ? "thank you" : "not now");
      },
      () => response.destroy(),
    );
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    deliveries,
    [Symbol.asyncDispose]: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function statusFor(path: string, webhookId: string, before: readonly ReceivedDelivery[]): number {
  if (path === "/dead") return 500;
  if (path !== "/flaky") return 200;
  const earlier = before.filter(
    (delivery) => delivery.path === path && delivery.headers["webhook-id"] === webhookId,
  );
  return earlier.length < FLAKY_FAILURES ? 503 : 200;
}

function flatten(request: IncomingMessage): Record<string, string> {
  return Object.fromEntries(
    Object.entries(request.headers).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.join(", ") : (value ?? ""),
    ]),
  );
}
