import type { Session } from "chdb";

/** A session and the settings that are set in it: the next request changes only what differs. */
export interface PooledSession {
  readonly session: Session;
  readonly settings: Map<string, string>;
  database: string;
}

/** Sessions of one kind; a request waits for a free one in order of arrival. */
export class SessionPool {
  readonly #free: PooledSession[];
  readonly #waiting: ((session: PooledSession) => void)[] = [];

  constructor(sessions: readonly Session[]) {
    this.#free = sessions.map((session) => ({ session, settings: new Map(), database: "default" }));
  }

  async use<T>(work: (session: PooledSession) => Promise<T>): Promise<T> {
    const free = this.#free.pop();
    const session =
      free ?? (await new Promise<PooledSession>((resolve) => this.#waiting.push(resolve)));
    try {
      return await work(session);
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free.push(session);
      else next(session);
    }
  }
}
