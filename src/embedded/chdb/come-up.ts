import type { ChildProcess } from "node:child_process";
import { UsageError } from "../../domain/errors.ts";
import type { FromChild, StartMessage } from "./protocol.ts";

const START_TIMEOUT_MS = 60_000;

type Child = Pick<ChildProcess, "on" | "once" | "removeListener"> & {
  send(message: StartMessage, callback: (error: Error | null) => void): boolean;
};

/** Has the child open the store. @returns its port @throws {UsageError} when it does not come up */
export function comeUp(child: Child, start: StartMessage): Promise<number> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () =>
        settle(() =>
          reject(cannotStart(`it has not come up within ${START_TIMEOUT_MS / 1_000} s`)),
        ),
      START_TIMEOUT_MS,
    );
    const onMessage = (message: FromChild): void => {
      if (message.kind === "ready") settle(() => resolve(message.port));
      else settle(() => reject(cannotStart(message.message)));
    };
    const onExit = (code: number | null, signal: string | null): void =>
      settle(() =>
        reject(cannotStart(`it ended (${signal ?? code}) while it opened ${start.storeDir}`)),
      );
    const onError = (error: Error): void =>
      settle(() => reject(cannotStart(`its process cannot be spoken to (${error.message})`)));
    const settle = (finish: () => void): void => {
      clearTimeout(timer);
      child.removeListener("message", onMessage);
      child.removeListener("exit", onExit);
      child.removeListener("error", onError);
      finish();
    };
    child.on("message", onMessage);
    child.once("exit", onExit);
    child.once("error", onError);
    child.send(start, (error) => {
      if (error !== null)
        settle(() => reject(cannotStart(`it ended before it could be asked (${error.message})`)));
    });
  });
}

export function cannotStart(reason: string): UsageError {
  return new UsageError(`the embedded ClickHouse does not start: ${reason}`);
}
