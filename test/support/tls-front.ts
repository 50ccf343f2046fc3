import { once } from "node:events";
import {
  connect,
  createServer,
  type AddressInfo,
  type NetConnectOpts,
  type Server,
  type Socket,
} from "node:net";
import { createSecureContext, TLSSocket } from "node:tls";
import type { Certificate } from "./undici-certificates.ts";

/** TLS before a store that speaks none. */
export interface TlsFront extends AsyncDisposable {
  readonly port: number;
  /** Shows another certificate to those that connect from now on. */
  present(certificate: Certificate): void;
  /** Cuts all connections. */
  cut(): void;
}

/** PostgreSQL's clients ask for TLS with 8 bytes, and wait for an `S`. */
const SSL_REQUEST_BYTES = 8;

/** Starts a server on 127.0.0.1 that ends TLS, as the store's own would, and passes everything on. */
export async function startTlsFront(
  store: NetConnectOpts,
  first: Certificate,
  protocol: "tls" | "postgres" = "tls",
): Promise<TlsFront> {
  let shown = first;
  const open = new Set<Socket>();
  const pass = (socket: Socket): void => {
    const secured = new TLSSocket(socket, {
      isServer: true,
      secureContext: createSecureContext({ ...shown }),
    });
    const behind = connect(store);
    secured.on("error", () => behind.destroy()).on("close", () => behind.destroy());
    behind.on("error", () => socket.destroy()).on("close", () => socket.destroy());
    secured.pipe(behind).pipe(secured);
  };
  const server: Server = createServer((socket) => {
    open.add(socket);
    socket.on("error", () => undefined).on("close", () => open.delete(socket));
    if (protocol === "tls") return pass(socket);
    socket.once("readable", () => {
      socket.read(SSL_REQUEST_BYTES);
      socket.write("S");
      pass(socket);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const cut = (): void => {
    for (const socket of open) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    present: (certificate) => void (shown = certificate),
    cut,
    async [Symbol.asyncDispose]() {
      cut();
      server.close();
      await once(server, "close");
    },
  };
}
