import { connect, createServer, type AddressInfo, type Socket } from "node:net";

/** A proxy to a server on loopback that can be cut: connections, new ones too, are closed until it is mended. */
export interface SwitchedProxy extends AsyncDisposable {
  readonly port: number;
  cut(): void;
  mend(): void;
}

export async function startSwitchedProxy(targetPort: number): Promise<SwitchedProxy> {
  let open = true;
  const sockets = new Set<Socket>();
  const keep = (socket: Socket): void => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.once("close", () => sockets.delete(socket));
  };
  const server = createServer((client) => {
    keep(client);
    if (!open) {
      client.destroy();
      return;
    }
    const upstream = connect(targetPort, "127.0.0.1");
    keep(upstream);
    client.pipe(upstream).pipe(client);
    client.once("close", () => upstream.destroy());
    upstream.once("close", () => client.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const closeAll = (): void => sockets.forEach((socket) => socket.destroy());
  return {
    port: (server.address() as AddressInfo).port,
    cut() {
      open = false;
      closeAll();
    },
    mend() {
      open = true;
    },
    [Symbol.asyncDispose]: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        closeAll();
      }),
  };
}
