import type { Socket } from "node:net";
import { classToGuard } from "./guard-class.ts";

interface Connection {
  readonly socket?: Socket | null;
  chunks: Buffer[];
  bytesBuffered: number;
  bytesNeeded: number;
  isConnected(): boolean;
}

interface ConnectionMethods {
  connect: (this: Connection) => Promise<unknown>;
  processData: (this: Connection, data: Buffer) => void;
}

const SIZE_BYTES = 4;

/**
 * kafkajs connects again with what it had read of the connection before: the rest of a response that was cut in its middle
 * is then taken for the beginning of the next one, and a nonsense length throws where nobody catches it, which ends the
 * process. This begins every connection anew, and ends one whose bytes make no sense. Safe to call again.
 */
export function guardConnection(): void {
  const prototype = classToGuard("network/connection.js") as ConnectionMethods | null;
  if (prototype === null) return;
  const { connect, processData } = prototype;
  prototype.connect = function guardedConnect(this: Connection) {
    if (!this.isConnected()) {
      // What still comes from the last one is nobody's.
      this.socket?.removeAllListeners("data").destroy();
      forget(this);
    }
    return connect.call(this);
  };
  prototype.processData = function guardedProcessData(this: Connection, data) {
    try {
      processData.call(this, data);
    } catch (error) {
      forget(this);
      this.socket?.destroy(error as Error);
    }
  };
}

function forget(connection: Connection): void {
  connection.chunks = [];
  connection.bytesBuffered = 0;
  connection.bytesNeeded = SIZE_BYTES;
}
