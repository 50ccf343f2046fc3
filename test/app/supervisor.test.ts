import { describe, expect, it } from "vitest";
import { makeSupervisor, type Part } from "../../src/app/supervisor.ts";
import type { Clock } from "../../src/domain/clock.ts";
import { UsageError } from "../../src/domain/errors.ts";
import { makeSilentLogger } from "../support/silent-logger.ts";

function makeManualClock(): Clock & { advance(ms: number): Promise<void> } {
  let now = 0;
  let timers: { at: number; run: () => void }[] = [];
  return {
    now: () => now,
    monotonic: () => now,
    schedule: (delayMs, run) => {
      const timer = { at: now + delayMs, run };
      timers.push(timer);
      return () => {
        timers = timers.filter((other) => other !== timer);
      };
    },
    advance: async (ms) => {
      now += ms;
      const due = timers.filter((timer) => timer.at <= now);
      timers = timers.filter((timer) => timer.at > now);
      for (const timer of due) timer.run();
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

function makePart(
  name: string,
  journal: string[],
  failures = 0,
): Part & { break(error: Error): void } {
  let failed: (error: Error) => void = () => {};
  let starts = 0;
  return {
    name,
    break: (error) => failed(error),
    start: async (onFailed) => {
      starts += 1;
      if (starts > 1 && starts <= 1 + failures) throw new Error(`${name} cannot start`);
      failed = onFailed;
      journal.push(`start ${name}`);
      return {
        [Symbol.asyncDispose]: async () => {
          journal.push(`stop ${name}`);
        },
      };
    },
  };
}

describe("the supervisor", () => {
  it("starts parts in order and stops them in reverse", async () => {
    const journal: string[] = [];
    const supervisor = makeSupervisor({ clock: makeManualClock(), logger: makeSilentLogger() });
    for (const name of ["store", "log", "server"]) await supervisor.add(makePart(name, journal));
    await supervisor[Symbol.asyncDispose]();
    expect(journal).toEqual([
      "start store",
      "start log",
      "start server",
      "stop server",
      "stop log",
      "stop store",
    ]);
  });

  it("shows a part from the beginning of its first start, and stops what starts after it was told to end: a store that hung was in no list of what is waited for", async () => {
    const journal: string[] = [];
    const supervisor = makeSupervisor({ clock: makeManualClock(), logger: makeSilentLogger() });
    let answer = (): void => {};
    const hanging = makePart("store", journal);
    const added = supervisor.add({
      ...hanging,
      start: async (failed) => {
        await new Promise<void>((resolve) => (answer = resolve));
        return hanging.start(failed);
      },
    });
    expect(supervisor.status()).toEqual([
      { name: "store", state: "starting", restarts: 0, lastError: null },
    ]);
    await supervisor[Symbol.asyncDispose]();
    answer();
    await added;
    expect(journal).toEqual(["start store", "stop store"]);
  });

  it("restarts a part that failed, shows it meanwhile, and leaves the others alone", async () => {
    const journal: string[] = [];
    const clock = makeManualClock();
    const supervisor = makeSupervisor({ clock, logger: makeSilentLogger() });
    const store = makePart("store", journal, 1);
    await supervisor.add(store);
    await supervisor.add(makePart("server", journal));
    store.break(new Error("engine died"));
    await clock.advance(1);
    expect(supervisor.status()).toEqual([
      { name: "store", state: "restarting", restarts: 0, lastError: "engine died" },
      { name: "server", state: "running", restarts: 0, lastError: null },
    ]);
    await clock.advance(200);
    expect(supervisor.status()[0]).toMatchObject({
      state: "restarting",
      restarts: 1,
      lastError: "store cannot start",
    });
    await clock.advance(400);
    expect(supervisor.status()[0]).toMatchObject({ state: "running", restarts: 2 });
    expect(journal).toEqual(["start store", "start server", "stop store", "start store"]);
    await supervisor[Symbol.asyncDispose]();
  });

  it("tells why a part failed with what is behind it: a wrong password was a store that cannot be reached, and what was said was said again", async () => {
    await using supervisor = makeSupervisor({
      clock: makeManualClock(),
      logger: makeSilentLogger(),
    });
    const refused = Object.assign(new Error(""), { code: "ECONNREFUSED" });
    const told = [
      "wrong password",
      "cannot be reached (wrong password)",
      "down (ECONNREFUSED)",
      "no answer: connect ECONNREFUSED ::1:1",
      "cannot be reached (ECONNREFUSED)",
    ];
    const behind = Object.assign(new Error("connect ECONNREFUSED ::1:1"), { code: "ECONNREFUSED" });
    const errors = [
      new Error("wrong password"),
      new Error("cannot be reached", { cause: new Error("wrong password") }),
      new Error("down", { cause: refused }),
      new Error("no answer: connect ECONNREFUSED ::1:1", { cause: behind }),
      new Error("cannot be reached (ECONNREFUSED)", { cause: behind }),
    ];
    for (const error of errors)
      await supervisor.add(
        { name: "configuration", start: () => Promise.reject(error) },
        { tolerant: true },
      );
    expect(supervisor.status().map(({ lastError }) => lastError)).toEqual(told);
  });

  it("tells when all parts run, also the one that waited for its store", async () => {
    const clock = makeManualClock();
    await using supervisor = makeSupervisor({ clock, logger: makeSilentLogger() });
    let isAway = true;
    const start = async (): Promise<AsyncDisposable> => {
      if (isAway) throw new Error("the store is away");
      return { [Symbol.asyncDispose]: async () => {} };
    };
    await supervisor.add({ name: "schema", start }, { tolerant: true });
    await supervisor.add(makePart("server", []));
    let isReady = false;
    void supervisor.allRunning().then(() => (isReady = true));
    await clock.advance(200);
    expect(isReady).toBe(false);
    isAway = false;
    await clock.advance(400);
    expect(isReady).toBe(true);
    await supervisor.allRunning();
  });

  it("waits longer from one try to the next for a store that stays away, and starts anew with a short wait after a part has run: it tried five times a second after a minute", async () => {
    const clock = makeManualClock();
    await using supervisor = makeSupervisor({ clock, logger: makeSilentLogger() });
    const tries: number[] = [];
    let isAway = true;
    let breakPart: (error: Error) => void = () => {};
    const start: Part["start"] = async (failed) => {
      tries.push(clock.monotonic());
      if (isAway) throw new Error("the store is away");
      breakPart = failed;
      return { [Symbol.asyncDispose]: async () => {} };
    };
    await supervisor.add({ name: "schema", start }, { tolerant: true });
    const outage = async (forMs: number): Promise<void> => {
      for (let passedMs = 0; passedMs < forMs; passedMs += 100) await clock.advance(100);
    };
    await outage(120_000);
    const waits = tries.slice(1).map((atMs, index) => atMs - (tries[index] ?? 0));
    expect(waits.slice(0, 6)).toEqual([200, 400, 800, 1_600, 3_200, 6_400]);
    expect(new Set(waits.slice(6))).toEqual(new Set([10_000]));
    isAway = false;
    await outage(70_000);
    expect(supervisor.status()[0]?.state).toBe("running");
    isAway = true;
    tries.length = 0;
    const brokeAtMs = clock.monotonic();
    breakPart(new Error("the store went away"));
    await outage(2_000);
    expect(tries.map((atMs) => atMs - brokeAtMs)).toEqual([200, 600, 1_400]);
  });

  it("regression: does not call a part restarted that broke while it started: the log said so, and that all parts ran", async () => {
    const clock = makeManualClock();
    const lines: string[] = [];
    await using supervisor = makeSupervisor({
      clock,
      logger: makeSilentLogger((_level, message) => lines.push(message)),
    });
    let breaks = false;
    let breakPart: (error: Error) => void = () => {};
    const start: Part["start"] = async (failed) => {
      breakPart = failed;
      if (breaks) failed(new Error("its engine died"));
      return { [Symbol.asyncDispose]: async () => {} };
    };
    await supervisor.add({ name: "store", start });
    breaks = true;
    breakPart(new Error("its engine died"));
    await clock.advance(200);
    expect(lines).toEqual(["part.failed", "part.failed"]);
    expect(supervisor.status()[0]).toMatchObject({ state: "restarting", restarts: 1 });
    breaks = false;
    await clock.advance(400);
    expect(lines.at(-1)).toBe("part.restarted");
    expect(supervisor.status()[0]).toMatchObject({ state: "running", restarts: 2 });
  });

  it("ends the start for what has to be changed outside, also of a part that may be tried again", async () => {
    const supervisor = makeSupervisor({ clock: makeManualClock(), logger: makeSilentLogger() });
    const part: Part = {
      name: "schema",
      start: () => Promise.reject(new UsageError("made by a newer version")),
    };
    await expect(supervisor.add(part, { tolerant: true })).rejects.toThrow("a newer version");
    expect(supervisor.status()).toEqual([]);
  });

  it("leaves a part alone that runs again when the one before it tells late that it broke", async () => {
    const journal: string[] = [];
    const clock = makeManualClock();
    const supervisor = makeSupervisor({ clock, logger: makeSilentLogger() });
    const tellers: ((error: Error) => void)[] = [];
    await supervisor.add({
      name: "log",
      start: async (failed) => {
        tellers.push(failed);
        journal.push("start");
        return { [Symbol.asyncDispose]: async () => void journal.push("stop") };
      },
    });
    tellers[0]!(new Error("gone"));
    await clock.advance(200);
    tellers[0]!(new Error("gone, told late"));
    await clock.advance(60_000);
    expect(journal).toEqual(["start", "stop", "start"]);
    expect(supervisor.status()).toMatchObject([{ state: "running", lastError: "gone" }]);
    await supervisor[Symbol.asyncDispose]();
  });

  it("throws what the first start throws", async () => {
    const supervisor = makeSupervisor({ clock: makeManualClock(), logger: makeSilentLogger() });
    await expect(
      supervisor.add({ name: "broken", start: () => Promise.reject(new Error("port in use")) }),
    ).rejects.toThrow("port in use");
    expect(supervisor.status()).toEqual([]);
  });

  /** Starts a store, a delivery that ends only at `end`, and a server, and begins to stop them. */
  async function stopSlowly() {
    let end = (): void => {};
    const supervisor = makeSupervisor({ clock: makeManualClock(), logger: makeSilentLogger() });
    await supervisor.add(makePart("store", []));
    await supervisor.add({
      name: "delivery",
      start: async () => ({
        [Symbol.asyncDispose]: () => new Promise<void>((resolve) => (end = resolve)),
      }),
    });
    await supervisor.add(makePart("server", []));
    expect(supervisor.stopping()).toBeNull();
    const stopped = supervisor[Symbol.asyncDispose]();
    await new Promise((resolve) => setImmediate(resolve));
    return {
      supervisor,
      end: async () => {
        end();
        await stopped;
      },
    };
  }

  it("regression: names the part whose end it waits for: a stop that was late named none", async () => {
    const { supervisor, end } = await stopSlowly();
    expect(supervisor.stopping()).toBe("delivery");
    await end();
    expect(supervisor.stopping()).toBeNull();
  });

  it("regression: shows at the end which parts still stop and which have stopped: both were shown as starting", async () => {
    const { supervisor, end } = await stopSlowly();
    const states = () => supervisor.status().map(({ state }) => state);
    expect(states()).toEqual(["running", "stopping", "stopped"]);
    await end();
    expect(states()).toEqual(["stopped", "stopped", "stopped"]);
  });

  it("a part that breaks soon after each restart is restarted ever later, however long the process has run", async () => {
    const clock = makeManualClock();
    await using supervisor = makeSupervisor({ clock, logger: makeSilentLogger() });
    const starts: number[] = [];
    let breakPart: (error: Error) => void = () => {};
    await supervisor.add({
      name: "store",
      start: async (failed) => {
        starts.push(clock.monotonic());
        breakPart = failed;
        return { [Symbol.asyncDispose]: async () => {} };
      },
    });
    await clock.advance(100_000);
    for (let round = 0; round < 4; round += 1) {
      const before = starts.length;
      breakPart(new Error("its engine died"));
      while (starts.length === before) await clock.advance(100);
    }
    const waits = starts.slice(1).map((atMs, index) => atMs - Math.max(100_000, starts[index]!));
    expect(waits).toEqual([200, 400, 800, 1_600]);
  });

  /** A supervisor of a store and a server on it, which is slow to stop, and to start once `startsSlowly` is set. */
  async function makeSlowServer() {
    const journal: string[] = [];
    const lines: string[] = [];
    const clock = makeManualClock();
    const logger = makeSilentLogger((_level, message) => lines.push(message));
    const supervisor = makeSupervisor({ clock, logger });
    const server = { startsSlowly: false, stopped: () => {}, started: (_error?: Error) => {} };
    let breakPart: (error: Error) => void = () => {};
    await supervisor.add(makePart("store", journal));
    await supervisor.add({
      name: "server",
      start: async (failed) => {
        journal.push("start server");
        if (server.startsSlowly)
          await new Promise<void>(
            (resolve, reject) => (server.started = (error) => (error ? reject(error) : resolve())),
          );
        breakPart = failed;
        return {
          [Symbol.asyncDispose]: async () => {
            await new Promise<void>((resolve) => (server.stopped = resolve));
            journal.push("stop server");
          },
        };
      },
    });
    journal.length = 0;
    return {
      supervisor,
      clock,
      journal,
      lines,
      server,
      break: () => breakPart(new Error("broke")),
    };
  }

  it("restarts a part only once the broken one has stopped, however long that takes: two would have the same files", async () => {
    const { supervisor, clock, journal, server, ...part } = await makeSlowServer();
    part.break();
    await clock.advance(5_000);
    expect(journal).toEqual([]);
    server.stopped();
    await clock.advance(0);
    expect(journal).toEqual(["stop server", "start server"]);
    const stopped = supervisor[Symbol.asyncDispose]();
    await clock.advance(0);
    server.stopped();
    await stopped;
  });

  it("told to stop while a broken part stops, waits for it before it stops the next, and starts nothing again", async () => {
    const { supervisor, clock, journal, server, ...part } = await makeSlowServer();
    part.break();
    await clock.advance(5_000);
    const stopped = supervisor[Symbol.asyncDispose]();
    await clock.advance(0);
    expect(supervisor.stopping()).toBe("server");
    expect(journal).toEqual([]);
    server.stopped();
    await stopped;
    expect(journal).toEqual(["stop server", "stop store"]);
  });

  it("told to stop during a restart that then fails, says nothing more and tries no more", async () => {
    const { supervisor, clock, journal, lines, server, ...part } = await makeSlowServer();
    server.startsSlowly = true;
    part.break();
    await clock.advance(0);
    server.stopped();
    await clock.advance(200);
    const stopped = supervisor[Symbol.asyncDispose]();
    await clock.advance(0);
    server.started(new Error("cannot start"));
    await stopped;
    await clock.advance(60_000);
    expect(journal).toEqual(["stop server", "start server", "stop store"]);
    expect(lines).toEqual(["part.failed"]);
  });

  it("stops the others though one cannot be stopped", async () => {
    const journal: string[] = [];
    const lines: string[] = [];
    const logger = makeSilentLogger((_level, message) => lines.push(message));
    const supervisor = makeSupervisor({ clock: makeManualClock(), logger });
    await supervisor.add(makePart("store", journal));
    await supervisor.add({
      name: "server",
      start: async () => ({
        [Symbol.asyncDispose]: () => Promise.reject(new Error("cannot stop")),
      }),
    });
    await supervisor[Symbol.asyncDispose]();
    expect(journal).toEqual(["start store", "stop store"]);
    expect(lines).toEqual(["part.stop_failed"]);
  });

  it("does not restart after it was stopped", async () => {
    const journal: string[] = [];
    const clock = makeManualClock();
    const supervisor = makeSupervisor({ clock, logger: makeSilentLogger() });
    const part = makePart("store", journal);
    await supervisor.add(part);
    part.break(new Error("died"));
    await supervisor[Symbol.asyncDispose]();
    await clock.advance(60_000);
    expect(journal).toEqual(["start store", "stop store"]);
  });
});
