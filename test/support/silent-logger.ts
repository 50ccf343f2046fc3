import type { Logger } from "../../src/domain/logger.ts";

/** Makes a logger that discards every line, or hands it to `onLine`. */
export function makeSilentLogger(
  onLine: (level: string, message: string, fields: object) => void = () => {},
): Logger {
  const logger: Logger = {
    debug: (fields, message) => onLine("debug", message, fields),
    info: (fields, message) => onLine("info", message, fields),
    warn: (fields, message) => onLine("warn", message, fields),
    error: (fields, message) => onLine("error", message, fields),
    child: () => logger,
  };
  return logger;
}

export const silentLogger: Logger = makeSilentLogger();
