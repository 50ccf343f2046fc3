import { connect } from "node:net";

const CLOSING_BRACE = 0x7d;

export interface RequestConnection {
  /** One at a time: the next one after its answer. */
  send(request: Buffer): void;
  destroy(): void;
}

/** A keep-alive connection for whole requests; every answer ends with its JSON body. */
export function openConnection(options: {
  readonly port: number;
  /** All connections may read into one: what was read is looked at before the next read. */
  readonly buffer: Buffer;
  readonly onOpen: () => void;
  readonly onAnswer: (status: string, latencyMs: number) => void;
  readonly onError: () => void;
}): RequestConnection {
  let sentAtMs = 0;
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
        return true;
      },
    },
  });
  socket.on("connect", options.onOpen);
  socket.on("error", options.onError);
  return {
    send(request) {
      sentAtMs = performance.now();
      socket.write(request);
    },
    destroy: () => void socket.destroy(),
  };
}
