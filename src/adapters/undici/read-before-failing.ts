import type { Socket } from "node:net";

type WriteCallback = (error?: Error | null) => void;

/**
 * Lets what the receiver has answered be read before a failed write ends the socket. A receiver that refuses a large request answers
 * and closes while it is still being sent; the write fails while the answer lies unread, and Node would destroy the socket with it: a
 * 410 would be tried again. Over TLS, most are still lost unless the receiver reads the rest before it closes, as proxies do.
 * Call this before anything is written.
 */
export function readBeforeFailing(socket: Socket): void {
  const write = socket._write.bind(socket);
  const writeSeveral = socket._writev?.bind(socket);
  socket._write = (chunk, encoding, callback) => write(chunk, encoding, afterReading(callback));
  if (writeSeveral === undefined) return;
  socket._writev = (chunks, callback) => writeSeveral(chunks, afterReading(callback));
}

/** The loop reads what is there between the two turns. */
function afterReading(callback: WriteCallback): WriteCallback {
  return (error) => {
    if (error instanceof Error) setImmediate(() => setImmediate(() => callback(error)));
    else callback();
  };
}
