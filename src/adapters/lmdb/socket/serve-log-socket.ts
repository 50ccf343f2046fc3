import { once } from "node:events";
import { chmod, rm } from "node:fs/promises";
import { createServer } from "node:net";
import type { Socket } from "node:net";
import type { LogProducer } from "../../../domain/log.ts";
import type { Logger } from "../../../domain/logger.ts";
import {
  FrameSplitter,
  decodeAppend,
  encodeFailure,
  encodeHello,
  encodePositions,
} from "./socket-frames.ts";

/**
 * Lets other processes on this machine append to the owner's log, over a unix socket that only this user may open.
 * A socket, not a second LMDB writer: one writer gives out the offsets, so the appends of all processes share
 * one commit and one fsync, and consumers wake at once.
 * The caller owns the data directory, so a socket file that is already there is a dead owner's.
 */
export async function serveLogSocket(
  log: LogProducer & { readonly partitions: number },
  socketPath: string,
  logger: Logger,
): Promise<AsyncDisposable> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", (error) => logger.debug({ err: error }, "log.socket_broke"));
    socket.write(encodeHello(log.partitions));
    const splitter = new FrameSplitter((id, body) => void answer(log, socket, id, body));
    socket.on("data", (chunk) => splitter.push(chunk));
  });
  server.on("error", (error) => logger.warn({ err: error }, "log.socket_failed"));
  const close = async (): Promise<void> => {
    const closed = once(server, "close");
    server.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  await rm(socketPath, { force: true });
  server.listen(socketPath);
  await once(server, "listening");
  try {
    await chmod(socketPath, 0o600);
  } catch (error) {
    await close();
    throw error;
  }
  return { [Symbol.asyncDispose]: close };
}

async function answer(log: LogProducer, socket: Socket, id: number, body: Buffer): Promise<void> {
  let frame: Buffer;
  try {
    frame = encodePositions(id, await log.append(decodeAppend(body)));
  } catch (error) {
    frame = encodeFailure(id, error);
  }
  if (!socket.destroyed) socket.write(frame);
}
