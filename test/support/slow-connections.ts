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

/** Spread evenly over the second, so that the senders do not hold up whoever measures beside them. */
const ROUND_MS = 1_000;
const TICK_MS = 20;
const OPEN_AT_ONCE = 100;
/** More would be a flood of connections, which is another attack. */
const AGAIN_AT_ONCE = 10;

/** Holds `count` connections to a port of loopback, each as slow as it can be; those that are closed come again, 500 a second. */
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

  let round: [Socket, SlowSender][] = [];
  let dripped = 0;
  function drip(): void {
    if (dripped >= round.length) {
      round = [...sockets];
      dripped = 0;
    }
    const until = dripped + Math.ceil((round.length * TICK_MS) / ROUND_MS);
    for (const [socket, sender] of round.slice(dripped, until))
      if (sender.drip !== "" && socket.readyState === "open") socket.write(sender.drip);
    dripped = until;
  }

  const ticker = setInterval(() => {
    drip();
    const missing = Math.min(opened < count ? OPEN_AT_ONCE : AGAIN_AT_ONCE, count - sockets.size);
    for (let turn = 0; turn < missing; turn += 1) open();
  }, TICK_MS);

  return {
    open: () => sockets.size,
    opened: () => opened,
    async [Symbol.asyncDispose]() {
      clearInterval(ticker);
      for (const socket of sockets.keys()) socket.resetAndDestroy();
      sockets.clear();
    },
  };
}
