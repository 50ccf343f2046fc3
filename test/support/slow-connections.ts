import { connect, type Socket } from "node:net";

/** A sender that writes `head` at once, and then drips without end. */
export interface SlowSender {
  readonly head: string;
  readonly drip: string;
}

/** Returns senders that drip headers, drip bodies (with a length, and in chunks), and say nothing. */
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
  /** Returns how many are open now, as far as the senders know. */
  open(): number;
  /** Returns how many were opened since the start, including those reopened after they were closed. */
  opened(): number;
}

/** Writes are spread evenly over the second, so that the senders do not hold up the measuring code beside them. */
const ROUND_MS = 1_000;
const TICK_MS = 20;
const OPEN_AT_ONCE = 100;
/** More would be a flood of connections, which is a different attack. */
const AGAIN_AT_ONCE = 10;

/** Holds `count` connections to a loopback port, each as slow as it can be; closed ones are reopened, 500 a second. */
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
