/** Statements that the child reads with at once. */
export const READ_SESSIONS = 6;

/** What the owner tells its chDB child, once, after it was started. */
export interface StartMessage {
  readonly kind: "start";
  readonly storeDir: string;
  readonly user: string;
  readonly password: string;
  /** 0 takes a free one. Another must be had: clients know it from before. */
  readonly port: number;
  readonly database: string;
  readonly memoryBytes: number;
}

export interface StopMessage {
  readonly kind: "stop";
}

export type ToChild = StartMessage | StopMessage;

export type FromChild =
  | { readonly kind: "ready"; readonly port: number }
  | { readonly kind: "failed"; readonly message: string };
