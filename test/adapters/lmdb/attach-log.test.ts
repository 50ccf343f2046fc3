import { once } from "node:events";
import { readdir, stat, writeFile } from "node:fs/promises";
import { connect, createServer } from "node:net";
import type { Socket } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { attachLog } from "../../../src/adapters/lmdb/socket/attach-log.ts";
import { serveLogSocket } from "../../../src/adapters/lmdb/socket/serve-log-socket.ts";
import { encodeAppend } from "../../../src/adapters/lmdb/socket/socket-frames.ts";
import type { Clock } from "../../../src/domain/clock.ts";
import { LogError } from "../../../src/domain/log.ts";
import type { Position } from "../../../src/domain/log.ts";
import { collect, record, text } from "../../support/log-consumer.ts";
import { systemClock } from "../../support/log-fakes.ts";
import { openTestLog, temporaryDir } from "../../support/log-lmdb.ts";
import { until } from "../../support/wait-for.ts";
import { makeSilentLogger, silentLogger } from "../../support/silent-logger.ts";

describe("a second process on the data directory", () => {
  it("appends through the owner's socket, and the owner's consumers get it", async () => {
    await using dir = await temporaryDir();
    await using log = await openTestLog(dir.path);
    const socketPath = join(dir.path, "log.sock");
    await using _served = await serveLogSocket(log, socketPath, silentLogger);
    expect((await stat(socketPath)).mode & 0o777).toBe(0o600);
    await using attached = await attachLog({ socketPath, clock: systemClock });
    expect(attached.partitions).toBe(4);
    await using consumer = await collect(log, {
      group: "g",
      topics: ["events"],
      deadlineMs: 20_000,
    });
    const [first] = await log.append([record("events", 1, "own")]);
    const positions = await Promise.all(
      Array.from({ length: 50 }, (_, n) =>
        attached.append([
          record("events", 1, `${n}`),
          { topic: "tasks", key: "k", value: Buffer.alloc(0) },
        ]),
      ),
    );
    expect(positions.map(([p]) => p!.offset)).toEqual(Array.from({ length: 50 }, (_, n) => n + 1));
    expect(first!.offset).toBe(0);
    const read = await consumer.received(51);
    expect(read.slice(1).map(text)).toEqual(Array.from({ length: 50 }, (_, n) => `${n}`));
  });

  it("carries big records and the owner's refusals", async () => {
    await using dir = await temporaryDir();
    await using log = await openTestLog(dir.path, { maxRecordBytes: 13 * 1024 * 1024 });
    const socketPath = join(dir.path, "log.sock");
    await using _served = await serveLogSocket(log, socketPath, silentLogger);
    await using attached = await attachLog({ socketPath, clock: systemClock });
    const value = Buffer.alloc(12 * 1024 * 1024, 3);
    await attached.append([{ topic: "events", key: "k", value }]);
    const refused = attached.append([
      { topic: "events", key: "k", value: Buffer.alloc(14 * 1024 * 1024) },
    ]);
    await expect(refused).rejects.toMatchObject({ code: "log_record_too_large", retryable: false });
    await expect(attached.consume({} as never)).rejects.toBeInstanceOf(LogError);
  });

  it("regression: is not listened for where the socket cannot be made this user's alone: who found it could append, with the log closed", async () => {
    await using dir = await temporaryDir();
    await using log = await openTestLog(dir.path);
    // Longer than a Unix socket's path may be: the system truncates it, so it does not exist under its name.
    const socketPath = join(dir.path, "s".repeat(150));
    await expect(serveLogSocket(log, socketPath, silentLogger)).rejects.toThrow();
    const [cutOff] = await readdir(dir.path).then((names) => names.filter((n) => /^s+$/.test(n)));
    if (cutOff === undefined) return;
    const client = connect(join(dir.path, cutOff));
    const [error] = (await once(client, "error")) as [NodeJS.ErrnoException];
    expect(error.code).toBe("ECONNREFUSED");
  });

  it("refuses at once while the owner is away, and goes on when it is back", async () => {
    await using dir = await temporaryDir();
    await using log = await openTestLog(dir.path);
    const socketPath = join(dir.path, "log.sock");
    await expect(attachLog({ socketPath, clock: systemClock })).rejects.toMatchObject({
      code: "log_unavailable",
    });
    const served = await serveLogSocket(log, socketPath, silentLogger);
    await using attached = await attachLog({ socketPath, clock: systemClock });
    await attached.append([record("events", 0, "before")]);
    await served[Symbol.asyncDispose]();
    const append = (value: string) =>
      attached.append([record("events", 0, value)]).then(
        ([position]) => position!.offset,
        ({ code }: LogError) => code,
      );
    await until(async () => (await append("x")) === "log_unavailable", "loss noticed");
    await using _again = await serveLogSocket(log, socketPath, silentLogger);
    let after: number | LogError["code"] = "log_unavailable";
    await until(async () => {
      after = await append("after");
      return after !== "log_unavailable";
    }, "connected again");
    expect(after).toBe(1);
  });

  it("tries again and again while the owner is away, however long that is", async () => {
    await using dir = await temporaryDir();
    const socketPath = join(dir.path, "log.sock");
    const answers = { partitions: 4, append: async () => [{ partition: 0, offset: 7 }] };
    const served = await serveLogSocket(answers, socketPath, silentLogger);
    let tries = 0;
    const fastClock: Clock = {
      ...systemClock,
      schedule: (delayMs, callback) => {
        if (delayMs !== 200) return systemClock.schedule(delayMs, callback);
        tries += 1;
        return systemClock.schedule(1, callback);
      },
    };
    await using attached = await attachLog({ socketPath, clock: fastClock });
    await served[Symbol.asyncDispose]();
    await until(() => tries >= 5, "several tries");
    await using _again = await serveLogSocket(answers, socketPath, silentLogger);
    const append = () => attached.append([record("events", 0, "x")]).catch(() => null);
    await until(async () => (await append())?.[0]?.offset === 7, "connected again");
  });

  it("listens where a killed owner left its socket", async () => {
    await using dir = await temporaryDir();
    await using log = await openTestLog(dir.path);
    const socketPath = join(dir.path, "log.sock");
    await writeFile(socketPath, "");
    await using _served = await serveLogSocket(log, socketPath, silentLogger);
    await using attached = await attachLog({ socketPath, clock: systemClock });
    expect(await attached.append([record("events", 0, "x")])).toEqual([
      { partition: 0, offset: 0 },
    ]);
  });

  it("says that the outcome is unknown when the owner goes away with appends under way", async () => {
    await using dir = await temporaryDir();
    const socketPath = join(dir.path, "log.sock");
    const never = { partitions: 4, append: () => new Promise<never>(() => {}) };
    const served = await serveLogSocket(never, socketPath, silentLogger);
    await using attached = await attachLog({
      socketPath,
      clock: systemClock,
      maxPendingBytes: 100,
    });
    const pending = attached.append([record("events", 0, "x".repeat(80))]);
    await expect(attached.append([record("events", 0, "y".repeat(80))])).rejects.toMatchObject({
      code: "log_full",
    });
    const settled = expect(pending).rejects.toMatchObject({ code: "log_outcome_unknown" });
    await served[Symbol.asyncDispose]();
    await settled;
    const answers = { partitions: 4, append: async () => [] };
    await using _again = await serveLogSocket(answers, socketPath, silentLogger);
    const hasRoom = () =>
      attached.append([record("events", 0, "z".repeat(80))]).then(
        () => true,
        () => false,
      );
    await until(hasRoom, "room again for what was lost");
  });

  it("has room again for what was answered", async () => {
    await using dir = await temporaryDir();
    await using log = await openTestLog(dir.path);
    const socketPath = join(dir.path, "log.sock");
    await using _served = await serveLogSocket(log, socketPath, silentLogger);
    await using attached = await attachLog({
      socketPath,
      clock: systemClock,
      maxPendingBytes: 300,
    });
    for (let offset = 0; offset < 10; offset += 1)
      expect(await attached.append([record("events", 0, "x".repeat(80))])).toEqual([
        { partition: 0, offset },
      ]);
  });

  it("refuses with log_closed once it was closed", async () => {
    await using dir = await temporaryDir();
    await using log = await openTestLog(dir.path);
    const socketPath = join(dir.path, "log.sock");
    await using _served = await serveLogSocket(log, socketPath, silentLogger);
    const attached = await attachLog({ socketPath, clock: systemClock });
    await attached[Symbol.asyncDispose]();
    await expect(attached.append([record("events", 0, "late")])).rejects.toMatchObject({
      code: "log_closed",
      retryable: false,
    });
  });

  it("a process that goes away before its answer does not take the owner down", async () => {
    await using dir = await temporaryDir();
    const socketPath = join(dir.path, "log.sock");
    let answer: ((positions: readonly Position[]) => void) | null = null;
    const slow = {
      partitions: 4,
      append: () =>
        new Promise<readonly Position[]>((resolve) => {
          answer = resolve;
        }),
    };
    const lines: string[] = [];
    const logger = makeSilentLogger((_level, message) => lines.push(message));
    await using _served = await serveLogSocket(slow, socketPath, logger);
    const client = connect(socketPath);
    client.write(encodeAppend(1, [record("events", 0, "mine")]));
    await until(() => answer !== null, "the append");
    client.destroy();
    answer!([{ partition: 0, offset: 0 }]);
    await until(() => lines.includes("log.socket_broke"), "the broken socket is told");
    await using next = await attachLog({ socketPath, clock: systemClock });
    expect(next.partitions).toBe(4);
  });

  it("regression: closed while an owner that froze takes connections and says nothing, it keeps none open", async () => {
    await using dir = await temporaryDir();
    const socketPath = join(dir.path, "log.sock");
    const opened: Socket[] = [];
    const frozen = createServer((socket) => {
      opened.push(socket.on("error", () => {}).resume());
    });
    await using log = await openTestLog(dir.path);
    const served = await serveLogSocket(log, socketPath, silentLogger);
    const attached = await attachLog({ socketPath, clock: systemClock });
    await served[Symbol.asyncDispose]();
    frozen.listen(socketPath);
    await until(() => opened.length > 0, "it connects again");
    await attached[Symbol.asyncDispose]();
    await until(() => opened.every((socket) => socket.readableEnded), "its connection is closed");
    frozen.close();
  });

  it("regression: beside an owner that froze it says so after five seconds: it waited for ever, without a word", async () => {
    await using dir = await temporaryDir();
    const socketPath = join(dir.path, "log.sock");
    const frozen = createServer((socket) => void socket.on("error", () => {}).resume());
    await new Promise<void>((resolve) => frozen.listen(socketPath, resolve));
    const delays: number[] = [];
    const fastClock: Clock = {
      ...systemClock,
      schedule: (delayMs, callback) => {
        delays.push(delayMs);
        return systemClock.schedule(delayMs / 100, callback);
      },
    };
    const attached = attachLog({ socketPath, clock: fastClock });
    await expect(attached).rejects.toThrow("does not answer");
    expect(delays).toEqual([5_000]);
    frozen.close();
  });
});
