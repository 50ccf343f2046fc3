import type { Readable } from "node:stream";

/** What a command may touch outside itself. */
export interface CommandIo {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborted by SIGTERM and SIGINT. */
  readonly signal: AbortSignal;
  readonly stdin: Readable & { readonly isTTY?: boolean; readonly fd?: number };
  readonly stdout: NodeJS.WritableStream & { readonly isTTY?: boolean };
  readonly stderr: NodeJS.WritableStream;
}

export function printLine(stream: NodeJS.WritableStream, line = ""): void {
  stream.write(`${line}\n`);
}
