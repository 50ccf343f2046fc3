import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import type { SeededRandom } from "./random.ts";

/**
 * `pass`; `cut`: connections are reset, new ones too; `stall`: connections stay open, nothing passes;
 * `lossy`: one chunk in fifty resets its connection, others are held back for up to 50 ms.
 */
export type ProxyMode = "pass" | "cut" | "stall" | "lossy";

export interface TcpProxy extends AsyncDisposable {
  readonly port: number;
  readonly connections: number;
  setMode(mode: ProxyMode): void;
}

const LOST = 0.02;
const MAX_HOLD_MS = 50;

/** Starts a TCP proxy on 127.0.0.1 whose connections can be cut, stalled and made lossy. */
export async function startTcpProxy(options: {
  readonly target: { readonly host: string; readonly port: number };
  /** Port to listen on; 0: any. */
  readonly port?: number;
  readonly random: SeededRandom;
}): Promise<TcpProxy> {
  const { target, random } = options;
  const sockets = new Set<Socket>();
  let mode: ProxyMode = "pass";

  const track = (socket: Socket): void => {
    sockets.add(socket);
    socket.setNoDelay(true);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => undefined);
  };
  const pipe = (from: Socket, to: Socket): void => {
    from.on("data", (chunk: Buffer) => {
      if (mode !== "lossy") return forward(from, to, chunk);
      if (random.next() < LOST) return reset(from, to);
      // Pause, so that later chunks do not overtake this one.
      from.pause();
      setTimeout(
        () => {
          forward(from, to, chunk);
          if (mode !== "stall") from.resume();
        },
        random.between(0, MAX_HOLD_MS),
      );
    });
    from.on("end", () => to.end());
    from.on("close", () => {
      if (!to.writableEnded) to.destroy();
    });
    to.on("drain", () => {
      if (mode !== "stall") from.resume();
    });
  };
  const server = createServer({ pauseOnConnect: true }, (client) => {
    track(client);
    if (mode === "cut") return void client.resetAndDestroy();
    const upstream = connect(target.port, target.host);
    track(upstream);
    pipe(client, upstream);
    pipe(upstream, client);
    if (mode !== "stall") client.resume();
    else upstream.pause();
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port ?? 0, "127.0.0.1", 1_024, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    get connections() {
      return sockets.size;
    },
    setMode(next) {
      mode = next;
      for (const socket of sockets)
        if (next === "cut") socket.resetAndDestroy();
        else if (next === "stall") socket.pause();
        else socket.resume();
    },
    [Symbol.asyncDispose]: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

function forward(from: Socket, to: Socket, chunk: Buffer): void {
  if (to.destroyed || !to.writable) return;
  if (!to.write(chunk)) from.pause();
}

function reset(from: Socket, to: Socket): void {
  from.resetAndDestroy();
  to.resetAndDestroy();
}
