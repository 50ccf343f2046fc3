import { once } from "node:events";
import { createConnection } from "node:net";
import type { Socket } from "node:net";
import { countedBytes } from "../../../domain/counted-bytes.ts";
import type { Clock } from "../../../domain/clock.ts";
import { LogError } from "../../../domain/log.ts";
import type { Log, LogConsumer, NewRecord, Position } from "../../../domain/log.ts";
import { FrameSplitter, decodeAnswer, encodeAppend } from "./socket-frames.ts";

const RECONNECT_MS = 200;
/** An owner greets as soon as it runs; one that froze accepts connections and says nothing. */
const GREETED_WITHIN_MS = 5_000;

export interface AttachLogOptions {
  /** What `serveLogSocket` listens on. */
  readonly socketPath: string;
  readonly clock: Clock;
  /** Most bytes of appends under way; more are refused with `log_full`. Default 64 MiB. */
  readonly maxPendingBytes?: number;
}

interface Waiting {
  readonly sizeBytes: number;
  resolve(positions: readonly Position[]): void;
  reject(error: LogError): void;
}

/**
 * Attaches to the log of another process, for appending only. While its owner is away, appends fail at once with
 * `log_unavailable`; it reconnects by itself.
 * @throws {LogError} `log_unavailable` when no owner answers
 */
export async function attachLog(options: AttachLogOptions): Promise<Log> {
  const log = new AttachedLog(options);
  try {
    await log.connect();
  } catch (cause) {
    await log[Symbol.asyncDispose]();
    throw cause;
  }
  return log;
}

class AttachedLog implements Log {
  readonly writesWhole = true;
  readonly #options: AttachLogOptions;
  readonly #waiting = new Map<number, Waiting>();
  #socket: Socket | null = null;
  /** A connection that has not been greeted yet. */
  #connecting: Socket | null = null;
  #partitions = 0;
  #nextId = 1;
  #pendingBytes = 0;
  #cancelReconnect: () => void = () => {};
  #closed = false;

  constructor(options: AttachLogOptions) {
    this.#options = options;
  }

  get partitions(): number {
    return this.#partitions;
  }

  async connect(): Promise<void> {
    const socket = createConnection(this.#options.socketPath);
    this.#connecting = socket;
    let greeted = () => {};
    const hello = new Promise<void>((resolve) => {
      greeted = resolve;
    });
    const splitter = new FrameSplitter((id, body) => {
      if (id !== 0) return this.#settle(id, body);
      this.#partitions = body.readUInt16BE(0);
      this.#socket = socket;
      greeted();
    });
    socket.on("data", (chunk) => splitter.push(chunk));
    const cancelGivingUp = this.#options.clock.schedule(GREETED_WITHIN_MS, () => socket.destroy());
    try {
      await Promise.race([hello, once(socket, "close")]);
    } catch (cause) {
      throw away(cause);
    } finally {
      cancelGivingUp();
      this.#connecting = null;
    }
    if (this.#socket !== socket) throw away(null);
    socket.on("error", () => socket.destroy());
    socket.on("close", () => this.#lost(socket));
    if (socket.destroyed) this.#lost(socket);
  }

  async append(records: readonly NewRecord[]): Promise<readonly Position[]> {
    if (this.#closed) throw new LogError("log_closed", "the log is closed");
    if (this.#socket === null) throw away(null);
    if (records.length === 0) return [];
    const id = this.#nextId;
    this.#nextId = id === 0xffff_ffff ? 1 : id + 1;
    const frame = encodeAppend(id, records);
    const most = this.#options.maxPendingBytes ?? 64 * 1024 * 1024;
    const sizeBytes = countedBytes(frame.length, most);
    if (this.#pendingBytes + sizeBytes > most)
      throw new LogError("log_full", "the embedded log has too many appends under way: try again");
    this.#pendingBytes += sizeBytes;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { sizeBytes, resolve, reject });
      this.#socket!.write(frame);
    });
  }

  /** Has nothing to learn: the log grows only where it is opened. */
  async learnPartitions(): Promise<void> {}

  async consume(): Promise<LogConsumer> {
    throw new LogError(
      "log_unavailable",
      "only the owner of the data directory can deliver and record: give this process the role ingest alone",
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    this.#cancelReconnect();
    const socket = this.#socket ?? this.#connecting;
    if (socket === null || socket.destroyed) return;
    const closed = once(socket, "close");
    socket.destroy();
    await closed;
  }

  #settle(id: number, body: Buffer): void {
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) return;
    this.#waiting.delete(id);
    this.#pendingBytes -= waiting.sizeBytes;
    const answer = decodeAnswer(body);
    if (answer instanceof LogError) waiting.reject(answer);
    else waiting.resolve(answer);
  }

  #lost(socket: Socket): void {
    if (this.#socket !== socket) return;
    this.#socket = null;
    for (const waiting of this.#waiting.values())
      waiting.reject(
        new LogError("log_outcome_unknown", "the owner of the data directory went away"),
      );
    this.#waiting.clear();
    this.#pendingBytes = 0;
    this.#reconnect();
  }

  #reconnect(): void {
    if (this.#closed) return;
    this.#cancelReconnect = this.#options.clock.schedule(RECONNECT_MS, () => {
      this.connect().then(
        () => (this.#closed ? this[Symbol.asyncDispose]() : undefined),
        () => this.#reconnect(),
      );
    });
  }
}

function away(cause: unknown): LogError {
  return new LogError("log_unavailable", "the owner of the data directory does not answer", {
    cause,
  });
}
