import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { makeLogger } from "../../../src/adapters/pino/logger.ts";
import { LogError } from "../../../src/domain/log.ts";

function lineOf(fields: object): Record<string, unknown> {
  const destination = new PassThrough();
  makeLogger({ level: "info", pretty: false, destination }).warn(fields, "record.failed");
  return JSON.parse(String(destination.read())) as Record<string, unknown>;
}

test.each(["err", "error"])("an error given as `%s` says what failed, and why", (name) => {
  const cause = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
  const error = new LogError("log_unavailable", "Kafka does not answer", { cause });
  expect(lineOf({ [name]: error })[name]).toMatchObject({
    type: "LogError",
    message: "Kafka does not answer: connect ECONNREFUSED",
    stack: expect.stringContaining("caused by: Error: connect ECONNREFUSED") as string,
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

test("a text stays a text, and what is no error stays as it is", () => {
  expect(lineOf({ error: "gone" })["error"]).toBe("gone");
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
