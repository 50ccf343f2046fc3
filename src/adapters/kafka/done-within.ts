import { LogError } from "../../domain/log.ts";

/** Waits for the work, which goes on where it takes longer. @throws {LogError} `log_unavailable` with `message` after `timeoutMs` */
export async function doneWithin<T>(
  work: Promise<T>,
  timeoutMs: number,
  message: string,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new LogError("log_unavailable", message)), timeoutMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
