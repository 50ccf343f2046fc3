import { describe, expect, it } from "vitest";
import { describeError } from "../../src/api/envelope.ts";
import { encodePayload } from "../../src/api/presenters/present-events.ts";
import { parseDateTime } from "../../src/api/date-time.ts";
import { describePage } from "../../src/api/pagination.ts";
import { RelayError } from "../../src/domain/errors.ts";
import { LogError } from "../../src/domain/log.ts";
import fc from "fast-check";

describe("an error", () => {
  it("that nobody expected shows no detail but the request id", () => {
    const answer = describeError(new Error("password hunter2"), "req_7");
    expect(answer).toMatchObject({ status: 500, code: "internal_error" });
    expect(answer.message).toContain("req_7");
    expect(answer.message).not.toContain("hunter2");
  });

  it("of a use case that calls itself internal shows no detail either", () => {
    const answer = describeError(new RelayError("internal_error", "row 7 is corrupt"), "req_8");
    expect(answer.message).not.toContain("row 7");
  });

  it("that is no Error at all is 500", () => {
    expect(describeError("thrown text", "req_9").status).toBe(500);
    expect(describeError(undefined, "req_9").status).toBe(500);
  });

  it("of a full or silent log is 503 with Retry-After; a record that is too large is a fault", () => {
    for (const code of [
      "log_full",
      "log_unavailable",
      "log_outcome_unknown",
      "log_closed",
    ] as const)
      expect(describeError(new LogError(code, "x"), "r")).toMatchObject({
        status: 503,
        code: "unavailable",
        headers: { "retry-after": "5" },
      });
    expect(describeError(new LogError("log_record_too_large", "x"), "r").status).toBe(500);
  });

  it("says when to come again where that helps", () => {
    for (const code of ["unavailable", "ingest_unreachable", "rate_limited"] as const)
      expect(describeError(new RelayError(code, "x"), "r").headers).toEqual({ "retry-after": "5" });
    expect(describeError(new RelayError("slug_taken", "x"), "r").headers).toEqual({});
  });

  it("of validation names its field exactly once", () => {
    const plain = new RelayError("validation_error", "must be https", { field: "receiver_url" });
    expect(describeError(plain, "r").message).toBe("receiver_url: must be https");
    const named = new RelayError("validation_error", "set verification_config.header", {
      field: "verification_config.header",
    });
    expect(describeError(named, "r").message).toBe("set verification_config.header");
  });
});

describe("a payload", () => {
  it("comes back byte for byte, whatever the bytes", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uint8Array({ maxLength: 64 }),
          fc.string().map((text) => Buffer.from(text)),
        ),
        (body) => {
          const { payload, payload_encoding } = encodePayload(body);
          const encoding = payload_encoding === "utf8" ? "utf8" : "base64";
          // Through JSON, as a client gets it.
          const back = Buffer.from(JSON.parse(JSON.stringify(payload)), encoding);
          expect(Buffer.compare(back, Buffer.from(body))).toBe(0);
        },
      ),
    );
  });

  it("keeps its byte order mark and its NULs", () => {
    const body = Buffer.from("\uFEFF{}\0\r\n");
    expect(encodePayload(body)).toEqual({ payload: "\uFEFF{}\0\r\n", payload_encoding: "utf8" });
  });

  it("that is not UTF-8 is base64", () => {
    expect(encodePayload(Buffer.from([0xff, 0x00]))).toEqual({
      payload: "/wA=",
      payload_encoding: "base64",
    });
    expect(encodePayload(Buffer.from([0xed, 0xa0, 0x80])).payload_encoding).toBe("base64");
    expect(encodePayload(new Uint8Array(0))).toEqual({ payload: "", payload_encoding: "utf8" });
  });
});

describe("a date-time", () => {
  it("is later than its millisecond however fine the rest is: what is below 10^-12 s was cut off", () => {
    const nearly = `2026-01-01T00:00:00.123${"0".repeat(40)}1Z`;
    expect(parseDateTime(nearly)).toBe(Date.UTC(2026, 0, 1) + 124);
  });

  it("of any moment in RFC 3339 is read back as that moment", () => {
    fc.assert(
      fc.property(
        fc.date({ noInvalidDate: true, min: new Date(0), max: new Date(4e12) }),
        (date) => {
          expect(parseDateTime(date.toISOString())).toBe(date.getTime());
        },
      ),
    );
  });

  const cases: [text: string, timeMs: number | null][] = [
    ["2024-02-29T23:59:59Z", Date.UTC(2024, 1, 29, 23, 59, 59)],
    ["2023-02-29T00:00:00Z", null],
    ["2026-01-01T01:00:00+01:00", Date.UTC(2026, 0, 1)],
    ["2026-01-01T00:00:00-23:59", Date.UTC(2026, 0, 1, 23, 59)],
    ["2026-01-01T00:00:00+24:00", null],
    ["2026-01-01T00:00:00+0100", null],
    ["2026-13-01T00:00:00Z", null],
    ["2026-00-01T00:00:00Z", null],
    ["2026-01-01T00:60:00Z", null],
    ["2016-12-31T23:59:60Z", Date.UTC(2017, 0, 1)],
    ["0001-01-01T00:00:00Z", Date.parse("0001-01-01T00:00:00Z")],
    ["2026-01-01T00:00:00.123Z", Date.UTC(2026, 0, 1) + 123],
    ["2026-01-01T00:00:00.1230000001Z", Date.UTC(2026, 0, 1) + 124],
    ["2026-01-01T00:00:00.1230000000000Z", Date.UTC(2026, 0, 1) + 123],
    ["2026-01-01T00:00:00.5Z", Date.UTC(2026, 0, 1) + 500],
    ["2026-01-01T00:00:00.9999Z", Date.UTC(2026, 0, 1) + 1_000],
    ["2026-01-01T00:00:00.Z", null],
    ["2026-01-01 00:00:00Z", null],
    ["+002026-01-01T00:00:00Z", null],
    ["2026-01-01T00:00:00Z\n", null],
  ];
  for (const [text, timeMs] of cases)
    it(`${JSON.stringify(text)} is ${timeMs === null ? "refused" : timeMs}`, () => {
      expect(parseDateTime(text)).toBe(timeMs);
    });
});

describe("a page", () => {
  it("knows whether there is a next and a previous one", () => {
    expect(describePage(1, 50, 0)).toMatchObject({
      total_pages: 0,
      has_next: false,
      has_prev: false,
    });
    expect(describePage(1, 50, 50)).toMatchObject({ total_pages: 1, has_next: false });
    expect(describePage(1, 50, 51)).toMatchObject({
      total_pages: 2,
      has_next: true,
      has_prev: false,
    });
    expect(describePage(2, 50, 51)).toMatchObject({ has_next: false, has_prev: true });
    expect(describePage(9, 50, 51)).toMatchObject({ has_next: false, has_prev: true });
  });
});
