import { readdir, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { answersAt, listensAt } from "./unix-sockets.ts";

const SUFFIX = ".alive";

/**
 * Shows that this process is alive: a socket in `runDir` that accepts connections until the process ends, however it ends. Containers
 * of one machine that share a volume can ask each other's sockets, whereas a pid of one means nothing to the other. Shows nothing if
 * no socket can be made (its path is too long, or the file system has none).
 */
export async function showAlive(runDir: string, token: string): Promise<AsyncDisposable> {
  const path = socketFile(runDir, token);
  const server = createServer((socket) => socket.destroy());
  const isListening = await listensAt(server, path);
  server.unref();
  return {
    [Symbol.asyncDispose]: async () => {
      if (isListening) await new Promise((resolve) => server.close(resolve));
      await rm(path, { force: true });
    },
  };
}

/** Returns whether the process that shows itself under this token is alive. */
export function answersAlive(runDir: string, token: string): Promise<boolean> {
  return answersAt(socketFile(runDir, token));
}

/** Removes, for an owner, the sockets of processes that were killed or came too late. */
export async function removeOtherSigns(runDir: string, token: string): Promise<void> {
  for (const name of await readdir(runDir))
    if (name.endsWith(SUFFIX) && join(runDir, name) !== socketFile(runDir, token))
      await rm(join(runDir, name), { force: true });
}

function socketFile(runDir: string, token: string): string {
  return join(runDir, `${token.slice(0, 8)}${SUFFIX}`);
}
