import type { ApiHarness, FaultKind } from "./api-harness.ts";
import { githubSignature, startApiRelay } from "./api-relay.ts";
import { startSwitchedProxy, type SwitchedProxy } from "./api-switch.ts";
import { startReceiver } from "./receiver.ts";
import { freePorts } from "./stores/free-port.ts";
import { waitFor } from "./wait-for.ts";

const MAX_PAYLOAD_BYTES = 4096;
/** The secret of every endpoint in the suite's worlds. */
const SECRET = "octocat-secret";

export interface GivenStores {
  readonly env: Record<string, string>;
  /** The proxies to the stores: cut for the fault `unavailable`. */
  readonly ways: readonly SwitchedProxy[];
}

/** Starts the composition root with real stores, behind the harness of the conformance suite. */
export async function startRealHarness(
  stores: GivenStores = { env: {}, ways: [] },
): Promise<ApiHarness> {
  const receiver = await startReceiver();
  const ingestPort = (await freePorts(1))[0] ?? 0;
  const wayToIngest = await startSwitchedProxy(ingestPort);
  const relay = await startApiRelay({
    RELAY_INGEST_PORT: String(ingestPort),
    RELAY_PUBLIC_INGEST_URL: `http://127.0.0.1:${ingestPort}`,
    RELAY_TEST_INGEST_URL: `http://127.0.0.1:${wayToIngest.port}`,
    RELAY_MAX_PAYLOAD_BYTES: String(MAX_PAYLOAD_BYTES),
    ...stores.env,
  });
  const faults = new Set<FaultKind>(["ingest_unreachable"]);
  if (stores.ways.length > 0) faults.add("unavailable");
  return {
    baseUrl: relay.apiUrl,
    receiverBase: receiver.url,
    newKey: async (scopes = ["read", "write"], orgId) => relay.newKey(scopes, orgId ?? null),
    async newEvent(endpointId, options = {}) {
      const size = options.bodyStored === false ? MAX_PAYLOAD_BYTES + 1 : 0;
      const body = options.body ?? Buffer.from(`{"zen":"${"x".repeat(size)}"}`);
      const url = await relay.urlOf(endpointId);
      // After a fault, ingest answers 503 until it has found its stores again.
      return waitFor("the event", async () => {
        const response = await fetch(url, {
          method: "POST",
          headers: {
            "content-type": "application/json",
            "x-hub-signature-256": githubSignature(body, SECRET),
          },
          body: new Uint8Array(body),
        });
        await response.arrayBuffer();
        return response.status === 503 ? null : response.headers.get("x-relay-event-id");
      });
    },
    faults,
    fault(kind) {
      const ways = kind === "ingest_unreachable" ? [wayToIngest] : stores.ways;
      for (const way of ways) way.cut();
      return { [Symbol.dispose]: () => ways.forEach((way) => way.mend()) };
    },
    async [Symbol.asyncDispose]() {
      await relay[Symbol.asyncDispose]();
      await wayToIngest[Symbol.asyncDispose]();
      await receiver[Symbol.asyncDispose]();
    },
  };
}
