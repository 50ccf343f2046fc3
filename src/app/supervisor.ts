import { systemReason, UsageError } from "../domain/errors.ts";
import type { Clock } from "../domain/clock.ts";
import type { Logger } from "../domain/logger.ts";
import { toError } from "../domain/thrown.ts";
import { WaitList } from "../domain/wait-list.ts";

/** A part of the process that can fail and be started again without the others noticing. */
export interface Part {
  readonly name: string;
  /** Resolves when the part works. `failed` is called when it breaks later. */
  start(failed: (error: Error) => void): Promise<AsyncDisposable>;
}

/** Makes a part of what works already, to be disposed in its turn. */
export function opened(name: string, resource: AsyncDisposable): Part {
  return { name, start: async () => resource };
}

export interface PartStatus {
  readonly name: string;
  /** `starting`: for the first time. */
  readonly state: "starting" | "running" | "restarting" | "stopping" | "stopped";
  readonly restarts: number;
  readonly lastError: string | null;
}

export interface Supervisor extends AsyncDisposable {
  /**
   * Starts a part after those added before it. With `tolerant`, a first start that fails is tried again like any other.
   * @throws what its first start throws, unless `tolerant` (a UsageError always)
   */
  add(part: Part, options?: { readonly tolerant: boolean }): Promise<void>;
  status(): readonly PartStatus[];
  /** Resolves once all added parts run; never if the supervisor is disposed first. */
  allRunning(): Promise<void>;
  /** Returns the part that disposing is waiting for, or null. */
  stopping(): string | null;
}

const FIRST_RESTART_DELAY_MS = 200;
const MAX_RESTART_DELAY_MS = 10_000;
/** A part that has run this long restarts with the first delay again. */
const STABLE_AFTER_MS = 60_000;

/**
 * Makes a supervisor that starts parts in order, restarts one that fails (with a growing delay), and stops them in
 * reverse order. A failed part shows in `status()`; the rest go on.
 */
export function makeSupervisor(options: {
  readonly clock: Clock;
  readonly logger: Logger;
}): Supervisor {
  const supervised: Supervised[] = [];
  const waitingForAll = new WaitList();
  let stopping: string | null = null;
  const tellWaiting = (): void => {
    if (supervised.every((entry) => entry.status().state === "running")) waitingForAll.wakeAll();
  };
  return {
    add: async (part, { tolerant } = { tolerant: false }) => {
      const entry = new Supervised(part, { ...options, onRestarted: tellWaiting });
      // Shown from the beginning, since everything waits for a store that hangs.
      supervised.push(entry);
      try {
        await entry.startFirst(tolerant);
      } catch (error) {
        supervised.splice(supervised.indexOf(entry), 1);
        throw error;
      }
    },
    status: () => supervised.map((entry) => entry.status()),
    allRunning: () => {
      const running = waitingForAll.wait();
      tellWaiting();
      return running;
    },
    [Symbol.asyncDispose]: async () => {
      for (const entry of supervised.toReversed()) {
        stopping = entry.status().name;
        await entry.stop();
      }
      stopping = null;
    },
    stopping: () => stopping,
  };
}

class Supervised {
  readonly #part: Part;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #onRestarted: () => void;
  #running: AsyncDisposable | null = null;
  #restarts = 0;
  #delayMs = FIRST_RESTART_DELAY_MS;
  #startedAtMs = 0;
  #lastError: string | null = null;
  #cancelRestart: (() => void) | null = null;
  #restarting: Promise<void> = Promise.resolve();
  #generation = 0;
  #stopped = false;
  #isAtEnd = false;

  constructor(
    part: Part,
    options: { readonly clock: Clock; readonly logger: Logger; readonly onRestarted: () => void },
  ) {
    this.#part = part;
    this.#clock = options.clock;
    this.#logger = options.logger.child({ part: part.name });
    this.#onRestarted = options.onRestarted;
  }

  async startFirst(tolerant: boolean): Promise<void> {
    try {
      await this.#start();
    } catch (error) {
      if (!tolerant || error instanceof UsageError) throw error;
      this.#onFailure(toError(error));
    }
  }

  status(): PartStatus {
    return {
      name: this.#part.name,
      state: this.#state(),
      restarts: this.#restarts,
      lastError: this.#lastError,
    };
  }

  #state(): PartStatus["state"] {
    if (this.#stopped) return this.#isAtEnd ? "stopped" : "stopping";
    if (this.#running !== null) return "running";
    return this.#restarts === 0 && this.#lastError === null ? "starting" : "restarting";
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    // What is still starting is stopped once it has started.
    this.#generation += 1;
    this.#cancelRestart?.();
    await this.#restarting;
    await this.#dispose();
    this.#isAtEnd = true;
  }

  /** Returns false when it failed before it had started. */
  async #start(): Promise<boolean> {
    this.#generation += 1;
    const generation = this.#generation;
    const running = await this.#part.start((error) => {
      if (generation === this.#generation) this.#onFailure(error);
    });
    if (generation !== this.#generation) {
      await running[Symbol.asyncDispose]();
      return false;
    }
    this.#running = running;
    this.#startedAtMs = this.#clock.monotonic();
    return true;
  }

  #onFailure(error: Error): void {
    this.#generation += 1;
    this.#lastError = describe(error);
    if (this.#stopped) return;
    const ranMs = this.#running === null ? 0 : this.#clock.monotonic() - this.#startedAtMs;
    if (ranMs > STABLE_AFTER_MS) this.#delayMs = FIRST_RESTART_DELAY_MS;
    this.#logger.error({ err: error, restartInMs: this.#delayMs }, "part.failed");
    this.#restarting = this.#restarting.then(() => this.#dispose());
    this.#scheduleRestart();
  }

  #scheduleRestart(): void {
    const delayMs = this.#delayMs;
    this.#delayMs = Math.min(delayMs * 2, MAX_RESTART_DELAY_MS);
    this.#cancelRestart = this.#clock.schedule(delayMs, () => {
      this.#restarting = this.#restarting.then(() => this.#restart());
    });
  }

  async #restart(): Promise<void> {
    if (this.#stopped) return;
    this.#restarts += 1;
    try {
      if (!(await this.#start())) return;
      this.#logger.info({ restarts: this.#restarts }, "part.restarted");
      this.#onRestarted();
    } catch (error) {
      this.#onFailure(toError(error));
    }
  }

  async #dispose(): Promise<void> {
    const running = this.#running;
    this.#running = null;
    if (running === null) return;
    try {
      await running[Symbol.asyncDispose]();
    } catch (error) {
      this.#logger.warn({ err: error }, "part.stop_failed");
    }
  }
}

/**
 * Describes an error with its cause, unless the message already says it: that a store cannot be reached does not say
 * that its password is wrong.
 */
function describe(error: Error): string {
  // For several refused addresses Node gives only the code.
  const said = error.message === "" && "code" in error ? String(error.code) : error.message;
  if (!(error.cause instanceof Error)) return said;
  const behind = describe(error.cause);
  const isSaid = said.includes(behind.trim()) || said.includes(systemReason(error.cause));
  return isSaid ? said : `${said} (${behind})`;
}
