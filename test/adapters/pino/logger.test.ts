import { PassThrough } from "node:stream";
import { stripVTControlCharacters } from "node:util";
import { expect, test } from "vitest";
import { makeLogger } from "../../../src/adapters/pino/logger.ts";
import { RelayError } from "../../../src/domain/errors.ts";
import { EventStoreError } from "../../../src/domain/event-store.ts";
import { LogError } from "../../../src/domain/log.ts";

function terminalLines(fields: object): string[] {
  const destination = new PassThrough();
  makeLogger({ level: "info", pretty: true, destination }).error(fields, "part.failed");
  return stripVTControlCharacters(String(destination.read())).trimEnd().split("\n");
}

const refused = (): Error =>
  Object.assign(new Error("connect ECONNREFUSED 127.0.0.1:5432"), { code: "ECONNREFUSED" });

function lineOf(fields: object): Record<string, unknown> {
  const destination = new PassThrough();
  makeLogger({ level: "info", pretty: false, destination }).warn(fields, "record.failed");
  return JSON.parse(String(destination.read())) as Record<string, unknown>;
}

test.each(["err", "error"])("an error given as `%s` says what failed, and why", (name) => {
  const cause = new TypeError("no such method");
  const error = new LogError("log_unavailable", "Kafka does not answer", { cause });
  expect(lineOf({ [name]: error })[name]).toMatchObject({
    type: "LogError",
    message: "Kafka does not answer: no such method",
    stack: expect.stringContaining("caused by: TypeError: no such method") as string,
    code: "log_unavailable",
    retryable: true,
  });
});

test("an error that quotes its cause says it once", () => {
  const cause = new Error("connect ECONNREFUSED ::1:1");
  const error = new Error(`ClickHouse does not answer: ${cause.message}`, { cause });
  expect(lineOf({ error })["error"]).toMatchObject({ message: error.message });
  cause.cause = error;
  expect(lineOf({ error })["error"]).toMatchObject({ message: error.message });
});

test("a plain error and those of several addresses are shown", () => {
  expect(lineOf({ error: new TypeError("no rows") })["error"]).toMatchObject({
    type: "TypeError",
    message: "no rows",
  });
  const both = new AggregateError([new Error("over IPv4"), new Error("over IPv6")]);
  expect(lineOf({ error: both })["error"]).toMatchObject({
    errors: [{ message: "over IPv4" }, { message: "over IPv6" }],
  });
});

test("regression: an error given as a text is an object as well: where lines are collected, those with the other type were refused", () => {
  expect(lineOf({ err: "gone" })["err"]).toEqual({ message: "gone" });
  expect(lineOf({ error: null })["error"]).toBeNull();
});

test("no credentials of a URL, and nothing that an error carries along, gets into a line", () => {
  const url = "https://relay:s3cret%40@store:8443/relay?x=a@b";
  const cause = new Error(`cannot reach ${url}`);
  const error = Object.assign(new Error(`not opened: ${url}`, { cause }), {
    address: url,
    options: { password: "s3cret" },
  });
  for (const line of [
    lineOf({ error }),
    lineOf({ error: String(error) }),
    lineOf({ err: error }),
  ]) {
    expect(JSON.stringify(line)).not.toContain("s3cret");
    expect(JSON.stringify(line)).toContain("https://[redacted]@store:8443/relay?x=a@b");
  }
});

test.each([
  ["a refused connection", refused()],
  [
    "a store that is away",
    new RelayError("unavailable", "PostgreSQL cannot be reached", { cause: refused() }),
  ],
  [
    "a driver that says it in words",
    new EventStoreError("store_unavailable", "ClickHouse does not answer", {
      cause: new Error("Timeout error."),
    }),
  ],
  [
    "a client's error without a code",
    Object.assign(new Error("the broker does not answer"), { name: "KafkaJSConnectionError" }),
  ],
  [
    "a broker that has just started",
    Object.assign(new Error("The coordinator is loading"), {
      name: "KafkaJSProtocolError",
      type: "GROUP_LOAD_IN_PROGRESS",
      code: 14,
    }),
  ],
  ["a wrong password", Object.assign(new Error("authentication failed"), { code: "28P01" })],
  ["a disk that fails", Object.assign(new Error("could not read blocks"), { code: "58030" })],
  ["a transaction that was ended", Object.assign(new Error("timeout"), { code: "25P03" })],
  ["a standby", Object.assign(new Error("cannot execute INSERT"), { code: "25006" })],
])(
  "regression: %s has no stack: whole stacks filled the terminal every ten seconds while a store was away",
  (_, error) => {
    expect(lineOf({ err: error })["err"]).not.toHaveProperty("stack");
    expect(terminalLines({ err: error })).toHaveLength(2);
  },
);

test.each([
  ["a bug", new TypeError("x is not a function")],
  [
    "a bug that looks like an outage",
    new RelayError("unavailable", "PostgreSQL failed", { cause: new TypeError("no rows") }),
  ],
  [
    "a statement that is wrong",
    new RelayError("unavailable", "PostgreSQL failed", {
      cause: Object.assign(new Error("no such column"), { code: "42703" }),
    }),
  ],
  [
    "a request that Kafka does not understand",
    Object.assign(new Error("The request is malformed"), { type: "INVALID_REQUEST", code: 42 }),
  ],
  [
    "a statement that ClickHouse refuses",
    new RelayError("unavailable", "ClickHouse failed", {
      cause: new EventStoreError("store_refused", "ClickHouse refused"),
    }),
  ],
])("%s keeps its stack", (_, error) => {
  expect(lineOf({ err: error })["err"]).toHaveProperty("stack");
  expect(terminalLines({ err: error }).length).toBeGreaterThan(2);
});

test("on a terminal an outage is told with its first line and its code", () => {
  const error = new LogError("log_unavailable", "the log cannot be reached.", {
    cause: new Error("no broker\nat all"),
  });
  expect(terminalLines({ err: error })[1]).toBe(
    '    err: "the log cannot be reached: no broker (log_unavailable)"',
  );
});

test("a connection refused at several addresses, of which Node says nothing else, is told by its code", () => {
  const both = Object.assign(new AggregateError([refused(), refused()]), { code: "ECONNREFUSED" });
  expect(lineOf({ err: both })["err"]).toMatchObject({ message: "ECONNREFUSED" });
});
