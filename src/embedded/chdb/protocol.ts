/** How many reading statements the child runs at once. */
export const READ_SESSIONS = 6;

/** What the owner sends its chDB child, once, after starting it. */
export interface StartMessage {
  readonly kind: "start";
  readonly storeDir: string;
  readonly user: string;
  readonly password: string;
  /** 0 takes any free port. Another one has to be available, since clients already know it. */
  readonly port: number;
  readonly database: string;
  readonly memoryBytes: number;
}

interface StopMessage {
  readonly kind: "stop";
}

export type ToChild = StartMessage | StopMessage;

export type FromChild =
  | { readonly kind: "ready"; readonly port: number }
  | { readonly kind: "failed"; readonly message: string };
