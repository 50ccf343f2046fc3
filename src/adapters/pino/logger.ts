import { pino, type Logger as PinoLogger } from "pino";
import pretty from "pino-pretty";
import type { Logger } from "../../domain/logger.ts";
import { serializeError, serializeErrorForTerminal } from "./serialize-error.ts";

export interface LoggerOptions {
  readonly level: "trace" | "debug" | "info" | "warn" | "error" | "fatal" | "silent";
  /** Human-readable lines instead of JSON: for a terminal. */
  readonly pretty: boolean;
  readonly destination: NodeJS.WritableStream;
}

/** Makes a logger of JSON lines (or readable ones) on one stream, written before the call returns so that a crash loses none. */
export function makeLogger(options: LoggerOptions): Logger {
  const stream = options.pretty
    ? pretty({
        destination: options.destination,
        sync: true,
        singleLine: true,
        translateTime: "SYS:HH:MM:ss.l",
      })
    : options.destination;
  const serialize = options.pretty ? serializeErrorForTerminal : serializeError;
  return wrap(
    pino(
      {
        level: options.level,
        base: null,
        timestamp: pino.stdTimeFunctions.isoTime,
        serializers: { err: serialize, error: serialize },
      },
      stream,
    ),
  );
}

function wrap(logger: PinoLogger): Logger {
  return {
    debug: (fields, message) => logger.debug(fields, message),
    info: (fields, message) => logger.info(fields, message),
    warn: (fields, message) => logger.warn(fields, message),
    error: (fields, message) => logger.error(fields, message),
    child: (fields) => wrap(logger.child(fields)),
  };
}
