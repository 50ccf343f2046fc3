import { connect, type Socket } from "node:net";

/** What a slow sender writes at once; the rest comes byte by byte, and never ends. */
export interface SlowSender {
  readonly head: string;
  readonly drip: string;
}

/** Headers that drip, bodies that drip (with a length, and in chunks), and connections that say nothing. */
export function slowSenders(path: string): readonly SlowSender[] {
  const line = `POST ${path} HTTP/1.1\r\nHost: relay\r\n`;
  return [
    { head: `${line}X-Slow: `, drip: "x" },
    { head: `${line}Content-Length: 100000\r\n\r\n{`, drip: "x" },
    { head: `${line}Transfer-Encoding: chunked\r\n\r\n`, drip: "1\r\nx\r\n" },
    { head: "", drip: "" },
  ];
}

export interface SlowConnections extends AsyncDisposable {
  /** Now open, as far as the senders know. */
  open(): number;
  /** Opened since the start: those that were closed are opened again. */
  opened(): number;
}

const DRIP_EVERY_MS = 1_000;
const OPEN_AT_ONCE = 200;

/** Holds `count` connections to a port of loopback, each as slow as it can be; those that are closed come again within a second. */
export function openSlowConnections(options: {
  readonly port: number;
  readonly count: number;
  readonly senders: readonly SlowSender[];
}): SlowConnections {
  const { port, count, senders } = options;
  const sockets = new Map<Socket, SlowSender>();
  let opened = 0;

  function open(): void {
    const sender = senders[opened % senders.length]!;
    opened += 1;
    const socket = connect(port, "127.0.0.1");
    sockets.set(socket, sender);
    socket.on("error", () => undefined);
    socket.once("connect", () => socket.write(sender.head));
    socket.once("close", () => sockets.delete(socket));
    socket.resume();
  }

  const opener = setInterval(() => {
    const missing = Math.min(OPEN_AT_ONCE, count - sockets.size);
    for (let turn = 0; turn < missing; turn += 1) open();
  }, 20);
  const dripper = setInterval(() => {
    for (const [socket, { drip }] of sockets)
      if (drip !== "" && socket.readyState === "open") socket.write(drip);
  }, DRIP_EVERY_MS);

  return {
    open: () => sockets.size,
    opened: () => opened,
    async [Symbol.asyncDispose]() {
      clearInterval(opener);
      clearInterval(dripper);
      for (const socket of sockets.keys()) socket.resetAndDestroy();
      sockets.clear();
    },
  };
}
