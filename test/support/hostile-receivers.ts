import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { once } from "node:events";
import { drips, floods, hangs, redirectsTo } from "./misbehaving-receivers.ts";
import { makeCertificates } from "./undici-certificates.ts";
import { startReceiver } from "./undici-receivers.ts";

/** What a process of hostile receivers reports when it is ready. */
export interface HostileReceivers {
  /** URL of one that takes every request and never answers. */
  readonly hanging: string;
  /** One that hangs, one that drips, one that answers endlessly, one that redirects, three with bad certificates, one without TLS. */
  readonly bad: readonly string[];
  /** URL of a good one over TLS. */
  readonly good: string;
  /** The authority that certificates are checked against, PEM. */
  readonly ca: string;
}

/** What the hostile receivers have seen. */
export interface Trespasses {
  /** Connections to the address that redirects point to. */
  readonly canaryConnections: number;
  /** Requests read by the four whose TLS must not be trusted. */
  readonly badTlsRequests: number;
  /** Connections to each of those four. */
  readonly badTlsConnections: readonly number[];
  /** Bytes sent by the one that answers endlessly. */
  readonly endlessBytes: number;
}

/** Serves them in this process and tells the parent where; answers each of its messages with `Trespasses`. */
export async function serveHostileReceivers(): Promise<void> {
  const certificates = makeCertificates();
  let badTlsRequests = 0;
  let endlessBytes = 0;
  const untrusted: RequestListener = (_, response) => {
    badTlsRequests += 1;
    response.end("ok");
  };
  const canary = await startReceiver(untrusted);
  const hanging = await startHanging();
  const good = await startReceiver((request, response) => {
    request.resume();
    request.once("end", () => response.end("ok"));
  }, certificates.good);
  const plaintext = [
    await startReceiver(drips),
    await startReceiver(floods((sizeBytes) => (endlessBytes += sizeBytes))),
    await startReceiver(redirectsTo(canary.url)),
  ];
  const badTls = [
    await startReceiver(untrusted, certificates.expired),
    await startReceiver(untrusted, certificates.wrongName),
    await startReceiver(untrusted, certificates.selfSigned),
    await startReceiver(untrusted),
  ];
  process.on("message", () =>
    process.send?.({
      canaryConnections: canary.connections(),
      badTlsRequests,
      badTlsConnections: badTls.map((one) => one.connections()),
      endlessBytes,
    } satisfies Trespasses),
  );
  process.send?.({
    hanging,
    bad: [hanging, ...plaintext.map(({ url }) => url), ...badTls.map(({ port }) => httpsUrl(port))],
    good: good.url,
    ca: certificates.ca,
  } satisfies HostileReceivers);
}

/** Returns an https URL, also for the one that speaks no TLS. */
function httpsUrl(port: number): string {
  return `https://127.0.0.1:${port}/hook`;
}

async function startHanging(): Promise<string> {
  const server = createServer(hangs);
  server.requestTimeout = 0;
  server.listen(0, "0.0.0.0", 4_096);
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/hang`;
}
