import { connect } from "node:net";

const CLOSING_BRACE = 0x7d;

/**
 * Opens a keep-alive connection that sends one whole request after another, as fast as answered or `intervalMs` apart; a late
 * one is sent at once. Takes every answer to end with its JSON body.
 */
export function keepSending(options: {
  readonly port: number;
  /** All connections may share one: each read is consumed before the next. */
  readonly buffer: Buffer;
  readonly intervalMs: number;
  /** The next request; null ends the connection. */
  readonly next: () => Buffer | null;
  readonly onAnswer: (status: string, latencyMs: number) => void;
  readonly onError: () => void;
}): void {
  const { intervalMs } = options;
  let sentAtMs = 0;
  let dueAtMs = 0;
  let status = "";
  const socket = connect({
    host: "127.0.0.1",
    port: options.port,
    noDelay: true,
    onread: {
      buffer: options.buffer,
      callback(size, buffer) {
        if (status === "") status = Buffer.from(buffer.subarray(9, 12)).toString("latin1");
        if (buffer[size - 1] !== CLOSING_BRACE) return true;
        const answered = status;
        status = "";
        options.onAnswer(answered, performance.now() - sentAtMs);
        // Skip the missed turns instead of shifting the schedule: otherwise connections that were once late together would
        // send together ever after.
        const lateMs = Math.max(0, sentAtMs - dueAtMs);
        const missed = intervalMs === 0 ? 0 : Math.floor(lateMs / intervalMs);
        dueAtMs += intervalMs * (1 + missed);
        const waitMs = dueAtMs - performance.now();
        if (waitMs > 0) setTimeout(send, waitMs);
        else send();
        return true;
      },
    },
  });
  // Spread the connections over one interval, so that they do not send in bursts.
  socket.on("connect", () => {
    const waitMs = Math.random() * intervalMs;
    dueAtMs = performance.now() + waitMs;
    setTimeout(send, waitMs);
  });
  socket.on("error", options.onError);

  function send(): void {
    const request = options.next();
    if (request === null) return void socket.destroy();
    sentAtMs = performance.now();
    socket.write(request);
  }
}
