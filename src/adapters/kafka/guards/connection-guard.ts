import type { Socket } from "node:net";
import { classToGuard, loadInternal } from "./guard-class.ts";

interface Connection {
  connect(): Promise<unknown>;
  readonly host: string;
  readonly port: number;
  readonly requestQueue: { readonly inflight: ReadonlyMap<number, unknown> };
  readonly socket?: Socket | null;
  chunks: Buffer[];
  bytesBuffered: number;
  bytesNeeded: number;
  isConnected(): boolean;
  rejectRequests(error: Error): void;
  disconnect(): Promise<unknown>;
}

interface ConnectionMethods {
  connect: (this: Connection) => Promise<unknown>;
  processData: (this: Connection, data: Buffer) => void;
  send: (this: Connection, request: object) => Promise<unknown>;
  disconnect: (this: Connection) => Promise<unknown>;
}

interface Try {
  readonly done: Promise<unknown>;
  isCalledOff: boolean;
}

interface RequestTimeout extends Error {
  readonly correlationId: number;
}

interface KafkaErrors {
  readonly KafkaJSConnectionClosedError: new (
    message: string,
    broker: Pick<Connection, "host" | "port">,
  ) => Error;
}

/** Connections that left a request unanswered for its whole time, until they have answered one. */
const silent = new WeakSet<object>();

const SIZE_BYTES = 4;
const LISTENED_TO = ["data", "end", "error", "timeout"] as const;

/**
 * Repairs connections. kafkajs reconnects with what it had read from the connection before: the rest of a response that was cut in the
 * middle is then taken for the beginning of the next one, and a nonsense length throws where nothing catches it, which ends the
 * process. This begins every connection with empty buffers, and ends one whose bytes make no sense.
 *
 * It also keeps asking a broker that takes requests and answers none (frozen, or behind a network that drops everything): only a
 * closed connection makes it look for the new leader. This closes one that left a request unanswered for its whole time, as Kafka's
 * own clients do.
 *
 * And callers that connect at the same moment each do so: one connection stays, and the timers of the others close it later. Here
 * they share one try, which lasts until its timer is stopped or has fired, even if it is called off, so that no timer is left that
 * could close a connection made after it. Safe to call again.
 */
export function guardConnection(): void {
  const prototype = classToGuard("network/connection.js") as ConnectionMethods | null;
  if (prototype === null) return;
  const { connect, processData, send, disconnect } = prototype;
  const tries = new WeakMap<Connection, Try>();
  prototype.connect = function guardedConnect(this: Connection) {
    const current = tries.get(this);
    if (current !== undefined) return current.isCalledOff ? anew(this, current) : current.done;
    if (this.isConnected()) return connect.call(this);
    letGoOfSocket(this);
    forget(this);
    const done = connect.call(this).finally(() => tries.delete(this));
    tries.set(this, { done, isCalledOff: false });
    return done;
  };
  prototype.disconnect = function guardedDisconnect(this: Connection) {
    const current = tries.get(this);
    if (current !== undefined && !this.isConnected()) {
      current.isCalledOff = true;
      // Merely ended, it would still connect, and count as connected. The error is what stops the timer.
      this.socket?.destroy(new Error("called off before it was there"));
    }
    return disconnect.call(this);
  };
  prototype.processData = function guardedProcessData(this: Connection, data) {
    try {
      processData.call(this, data);
    } catch (error) {
      forget(this);
      this.socket?.destroy(error as Error);
    }
  };
  prototype.send = async function guardedSend(this: Connection, request) {
    const { socket } = this;
    try {
      const answer = await send.call(this, request);
      silent.delete(this);
      return answer;
    } catch (error) {
      // This says nothing of a connection that was made anew meanwhile.
      if (this.socket !== socket || !isSilence(this, error)) throw error;
      throw close(this, error);
    }
  };
}

/** Returns whether the broker at the other end left a request unanswered for its whole time, and has answered none since. */
export function hasFallenSilent(connection: object): boolean {
  return silent.has(connection);
}

/** Returns whether a broker is silent. It answers in order: what waits behind a slow request (joining a group) says nothing of it. */
function isSilence({ requestQueue }: Connection, error: unknown): error is RequestTimeout {
  const { name, correlationId } = error as RequestTimeout;
  if (name !== "KafkaJSRequestTimeoutError") return false;
  return ![...requestQueue.inflight.keys()].some((earlier) => earlier < correlationId);
}

/** @returns the error for those who wait for an answer, as if the broker had closed the connection */
function close(connection: Connection, { message }: RequestTimeout): Error {
  const { KafkaJSConnectionClosedError } = loadInternal("errors.js") as KafkaErrors;
  const closed = new KafkaJSConnectionClosedError(message, connection);
  silent.add(connection);
  connection.rejectRequests(closed);
  connection.socket?.destroy();
  void connection.disconnect();
  return closed;
}

/** @returns the result of connecting again once that try has ended */
function anew(connection: Connection, { done }: Try): Promise<unknown> {
  const again = () => connection.connect();
  return done.then(again, again);
}

/** Lets go of the last socket, whose remaining bytes no longer matter. */
function letGoOfSocket({ socket }: Connection): void {
  for (const event of LISTENED_TO) socket?.removeAllListeners(event);
  // Without a listener, an error would end the process.
  socket?.on("error", () => {}).destroy();
}

function forget(connection: Connection): void {
  connection.chunks = [];
  connection.bytesBuffered = 0;
  connection.bytesNeeded = SIZE_BYTES;
}
