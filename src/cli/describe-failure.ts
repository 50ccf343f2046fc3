import { ApiError } from "../client/api-error.ts";
import { RelayError, UsageError } from "../domain/errors.ts";
import { LogError } from "../domain/log.ts";
import { codeOf } from "../domain/thrown.ts";

/** Describes a limit of the system that was reached; null when none was. Where that is the cause, it does not matter what failed. */
export function describeLimit(error: unknown): string | null {
  const noMoreFiles = findCause(error, hasNoMoreFiles);
  if (noMoreFiles !== null)
    return `no more files can be opened (${noMoreFiles.message}): raise the limit of open files (ulimit -n) to 1024 or more`;
  if (findCause(error, hasNoMoreThreads) !== null)
    return "no more threads can be made (EAGAIN): raise the limit of processes (ulimit -u, or that of the container or the service) to 512 or more";
  return null;
}

/** Describes what was foreseen, and a full disk, in one line; anything else by its stack. */
export function describeFailure(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if ([UsageError, RelayError, LogError, ApiError].some((foreseen) => error instanceof foreseen))
    return error.message;
  if (codeOf(error) === "ENOSPC")
    return `the disk is full (${error.message}): make room on it, or set RELAY_DATA_DIR to a directory on another one`;
  return error.stack ?? error.message;
}

/** Goes by the message: an error from a thread has the code nowhere else. */
function hasNoMoreFiles({ message }: Error): boolean {
  return /\bEMFILE\b/.test(message);
}

/** Goes by the code: nothing else says that the system refused a thread of Node's own. */
function hasNoMoreThreads(error: Error): boolean {
  return codeOf(error) === "ERR_WORKER_INIT_FAILED";
}

/** Finds the first, of the error and its causes, for which `isIt` holds. */
function findCause(error: unknown, isIt: (one: Error) => boolean): Error | null {
  for (let at = error; at instanceof Error; at = at.cause) if (isIt(at)) return at;
  return null;
}
