import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checkJson } from "../../src/api/check-json.ts";
import { makeTestClient, startFakeHarness } from "../support/api-harness.ts";
import type { FakeHarness } from "../support/api-harness.ts";
import { sendRaw } from "../support/api-raw.ts";
import { makeWorld } from "../support/api-world.ts";
import type { World } from "../support/api-world.ts";
import { cpuSecondsOf } from "../support/cpu-seconds.ts";

let harness: FakeHarness;
let world: World;
beforeAll(async () => {
  harness = await startFakeHarness();
  world = await makeWorld(harness, await makeTestClient(harness, null));
});
afterAll(() => harness[Symbol.asyncDispose]());

const JSON_TYPE = { "content-type": "application/json" };

async function post(
  path: string,
  body: string | Uint8Array,
  headers: Record<string, string> = JSON_TYPE,
) {
  return world.client.send({ method: "POST", path, body, headers, key: world.key });
}

describe("a body", () => {
  const cases: [name: string, body: string | Uint8Array, field: string][] = [
    ["is empty", "", "body"],
    ["is cut short", '{"name":"x"', "body"],
    ["is followed by more", '{"name":"x"} {}', "body"],
    ["is null", "null", "body"],
    ["is a list", '[{"name":"x"}]', "body"],
    ["is a string", '"name"', "body"],
    [
      "is invalid UTF-8",
      Buffer.from([...Buffer.from('{"name":"'), 0xff, ...Buffer.from('"}')]),
      "body",
    ],
    [
      "is overlong UTF-8",
      Buffer.from([...Buffer.from('{"name":"'), 0xc0, 0x80, ...Buffer.from('"}')]),
      "body",
    ],
    ["is UTF-16", Buffer.from('{"name":"x"}', "utf16le"), "body"],
    ["lacks a field", "{}", "name"],
    ["has a number for text", '{"name":1}', "name"],
    ["has null for text", '{"name":null}', "name"],
    ["has an empty name", '{"name":""}', "name"],
    ["has a name of 256 characters", JSON.stringify({ name: "x".repeat(256) }), "name"],
    ["has a NUL in its name", String.raw`{"name":"a\u0000b"}`, "name"],
    ["has half a surrogate pair", String.raw`{"name":"\ud800"}`, "name"],
    ["has the other half", String.raw`{"name":"a\udc00"}`, "name"],
    ["has halves in the wrong order", String.raw`{"name":"\udc00\ud800"}`, "name"],
    ["has a NUL in a key", String.raw`{"name":"x","a\u0000":1}`, "body"],
    ["has __proto__", '{"name":"x","__proto__":{"admin":true}}', "__proto__"],
    ["has constructor", '{"name":"x","constructor":{"prototype":{}}}', "constructor"],
    ["has a number beyond doubles", '{"name":1e999}', "name"],
    ["has an unknown field", '{"name":"x","nmae":"y"}', "nmae"],
    ["is nested without end", `{"name":${"[".repeat(100_000)}${"]".repeat(100_000)}}`, "name"],
    ["has NaN", '{"name":NaN}', "body"],
    ["has a comment", '{"name":"x"/**/}', "body"],
  ];
  for (const [name, body, field] of cases)
    it(`that ${name} is 400 and the message names ${field}`, async () => {
      const answer = await post("/projects", body);
      expect(answer.status, answer.text).toBe(400);
      expect(answer.json.error.code).toBe("validation_error");
      expect(answer.json.error.message).toMatch(new RegExp(`^${field}: `));
    });

  it("with an endless key is answered with its beginning: all of it came back", async () => {
    const key = "🙂".repeat(100_000);
    const answer = await post("/projects", JSON.stringify({ name: "x", [`a${key}`]: 1 }));
    expect(answer.status).toBe(400);
    expect(answer.json.error.message).toMatch(/^a🙂{99}\uFFFD…: unknown field\.$/u);
  });

  it("with NUL, __proto__ or endless nesting inside verification_config is 400", async () => {
    const bad = [
      String.raw`{"header":"x\u0000"}`,
      '{"__proto__":{}}',
      '{"a":{"__proto__":1}}',
      "null",
      "[]",
      '{"a":1e400}',
    ];
    for (const config of bad) {
      const body = `{"name":"x","provider":"custom","verification_method":"none","verification_config":${config}}`;
      const answer = await post(`/projects/${world.projectId}/endpoints`, body);
      expect(answer.status, config).toBe(400);
      expect(answer.json.error.message).toContain("verification_config");
    }
  });

  it("of 1 MB is looked through in milliseconds, however many values it holds: each kept the thread for 0.3 s", async () => {
    const body: unknown = JSON.parse(`{"name":[${"0,".repeat(520_000)}0]}`);
    const seconds = await cpuSecondsOf(() => {
      for (let index = 0; index < 10; index += 1) checkJson(body);
    });
    expect(seconds).toBeLessThan(1);
  });

  it("is refused with the whole path of the value that is wrong", () => {
    const wrong = { verification_config: { ok: [1, "a"], list: [{ a: "b" }, { a: "\0" }] } };
    expect(() => checkJson(wrong)).toThrow("verification_config.list.1.a: must not contain NUL");
    expect(() => checkJson([[{ a: "\uD800" }]])).toThrow("0.0.a: must be well");
    expect(() => checkJson({ a: { "": "\0" } })).toThrow('a."": must not contain NUL');
    expect(() => checkJson({ a: { "\uD800": 1 } })).toThrow("a: a key must be well-formed");
    expect(() => checkJson(JSON.parse("[".repeat(100) + "]".repeat(100)))).toThrow(
      "body: nested deeper",
    );
    const deep = JSON.parse(`{"":${"[".repeat(40)}${"]".repeat(40)}}`);
    expect(() => checkJson(deep)).toThrow('"": nested deeper');
  });

  it("counts characters, not UTF-16 units: 255 emoji are a name", async () => {
    const answer = await post("/projects", JSON.stringify({ name: "🎉".repeat(255) }));
    expect(answer.status).toBe(201);
    expect(answer.json.data.name).toBe("🎉".repeat(255));
  });

  it("may begin with a byte order mark, and end with white space", async () => {
    expect((await post("/projects", '\uFEFF{"name":"bom"}\r\n')).status).toBe(201);
  });

  it("beyond exact integers is told the bound of its field: it was told that of all integers", async () => {
    const path = `/destinations/${world.destinationId}`;
    for (const [field, value, bound] of [
      ["retry_max_attempts", 1e21, "must be at most 10."],
      ["retry_max_attempts", -1e21, "must be at least 0."],
      ["rate_limit_max", 2 ** 53, "must be at most 2147483647."],
    ] as const) {
      const json = { [field]: value };
      const answer = await world.client.send({ method: "PATCH", path, json, key: world.key });
      expect(answer.json.error.message).toBe(`${field}: ${bound}`);
    }
  });

  const destinationCases: [field: string, value: unknown][] = [
    ["retry_max_attempts", 11],
    ["retry_max_attempts", -1],
    ["retry_max_attempts", 1.5],
    ["retry_max_attempts", "5"],
    ["retry_max_attempts", 1e21],
    ["retry_backoff", "quadratic"],
    ["rate_limit_max", 0],
    ["rate_limit_max", 1e15],
    ["rate_limit_window", "week"],
    ["forward_original_signature", "true"],
    ["receiver_url", "http://hooks.example.com/"],
    ["receiver_url", 7],
    ["receiver_url", `https://hooks.example.com/${"x".repeat(2_048)}`],
    ["name", null],
  ];
  for (const [field, value] of destinationCases)
    it(`of a destination with ${field} ${JSON.stringify(value).slice(0, 40)} is 400, on create as on PATCH`, async () => {
      const json = { name: "x", receiver_url: "https://hooks.example.com/", [field]: value };
      const path = `/endpoints/${world.endpointId}/destinations`;
      const created = await world.client.send({ method: "POST", path, json, key: world.key });
      expect(created.status).toBe(400);
      expect(created.json.error.message).toContain(field);
      const patch = {
        method: "PATCH",
        path: `/destinations/${world.destinationId}`,
        key: world.key,
      };
      const changed = await world.client.send({ ...patch, json: { [field]: value } });
      expect(changed.status).toBe(400);
      expect(changed.json.error.message).toContain(field);
    });

  it("of 1 MiB is read, of a byte more is 413, announced or chunked", async () => {
    const frame = '{"name":""}'.length;
    const headers = { ...JSON_TYPE, authorization: `Bearer ${world.key}` };
    for (const chunked of [false, true])
      for (const [sizeBytes, status] of [
        [1_048_576, 400],
        [1_048_577, 413],
        [3_000_000, 413],
      ] as const) {
        const body = `{"name":"${"x".repeat(sizeBytes - frame)}"}`;
        const answer = await sendRaw(harness.baseUrl, {
          method: "POST",
          target: "/projects",
          headers,
          body,
          chunked,
        });
        expect(answer.status, `${sizeBytes} ${chunked}`).toBe(status);
      }
  });

  it("regression: of 20 MB in chunks is taken to its end and answered 413: the connection was closed over a client that was still sending", async () => {
    const socket = connect(Number(new URL(harness.baseUrl).port), "127.0.0.1");
    socket.on("error", () => undefined);
    try {
      const head = `POST /projects HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${world.key}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`;
      socket.write(head);
      const chunk = `100000\r\n${" ".repeat(1_048_576)}\r\n`;
      for (let count = 0; count < 20; count += 1)
        await new Promise<void>((resolve, reject) =>
          socket.write(chunk, (error) => (error ? reject(error) : resolve())),
        );
      socket.write("0\r\n\r\n");
      const [answer] = (await once(socket, "data")) as [Buffer];
      expect(answer.toString()).toMatch(/^HTTP\/1\.1 413 /);
    } finally {
      socket.destroy();
    }
  });

  it("that is announced as larger than 1 MiB is 413 before any of it comes", async () => {
    const socket = connect(Number(new URL(harness.baseUrl).port), "127.0.0.1");
    socket.write(
      `POST /projects HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${world.key}\r\nContent-Type: application/json\r\nContent-Length: 1048577\r\n\r\n`,
    );
    const [answer] = (await once(socket, "data")) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 413 /);
    socket.destroy();
  });

  it("tells a field that is missing from one of the wrong type", async () => {
    const path = `/projects/${world.projectId}/endpoints`;
    const messages = async (body: string) => (await post(path, body)).json.error.message;
    expect(await messages('{"provider":"custom"}')).toBe("name: is required.");
    expect(await messages('{"name":"x"}')).toBe("provider: is required.");
    expect(await messages('{"name":[],"provider":"custom"}')).toBe("name: must be a string.");
    expect(await messages('{"name":"x","provider":null}')).toMatch(/^provider: must be one of /);
  });

  const types: [type: string | null, status: number][] = [
    ["application/json; charset=utf-8", 201],
    ["Application/JSON;charset=UTF-8", 201],
    // Regression: parameters that say nothing to the contrary were refused.
    ["application/json; foo=bar", 201],
    ['application/json; profile="a;charset=latin1"; charset="utf-8"', 201],
    ["application/json ; charset = utf-8;", 201],
    ["application/json; charset=latin1", 415],
    ["application/json; foo=bar; charset=utf-16", 415],
    ["application/json; charset", 415],
    ["application/json foo=bar", 415],
    ['application/json; foo="bar', 415],
    ["application/jsonp", 415],
    ["text/json", 415],
    ["application/json, text/plain", 415],
    ["", 415],
    [null, 415],
  ];
  for (const [index, [type, status]] of types.entries())
    it(`of content type ${type} is ${status}`, async () => {
      const answer = await sendRaw(harness.baseUrl, {
        method: "POST",
        target: "/projects",
        headers: {
          authorization: `Bearer ${world.key}`,
          ...(type === null ? {} : { "content-type": type }),
        },
        body: JSON.stringify({ name: `typed ${index}` }),
      });
      expect(answer.status, answer.text).toBe(status);
    });

  it("that is compressed is 415", async () => {
    expect(
      (await post("/projects", "{}", { ...JSON_TYPE, "content-encoding": "gzip" })).status,
    ).toBe(415);
  });

  it("of {} is no body: clients send it with a POST that takes none", async () => {
    expect((await post(`/endpoints/${world.endpointId}/resume`, "{}")).status).toBe(200);
    expect((await post(`/endpoints/${world.endpointId}/resume`, "", {})).status).toBe(200);
    for (const body of ["[1]", "[]", "null", '{"status":"active"}', '{"status":'])
      expect((await post(`/endpoints/${world.endpointId}/resume`, body)).status, body).toBe(400);
  });
});

describe("a query", () => {
  const cases: [query: string, parameter: string][] = [
    ["page=0", "page"],
    ["page=-1", "page"],
    ["page=1.5", "page"],
    ["page=", "page"],
    ["page=1e3", "page"],
    ["page=0x10", "page"],
    ["page=%201", "page"],
    ["page=99999999999999999999x", "page"],
    ["limit=0", "limit"],
    ["limit=101", "limit"],
    ["limit=ten", "limit"],
    ["page=1&page=2", "page"],
    ["page=1&page=1", "page"],
    ["%70age=1&page=1", "page"],
    ["provider=paypal", "provider"],
    ["signature_valid=1", "signature_valid"],
    ["signature_valid=TRUE", "signature_valid"],
    ["delivery_summary=yes", "delivery_summary"],
    ["from=yesterday", "from"],
    ["from=2026-01-01", "from"],
    ["from=2026-02-30T00:00:00Z", "from"],
    ["from=2026-01-01T24:00:00Z", "from"],
    ["from=2026-01-01T00:00:00", "from"],
    ["from=2026-01-01T00:00:00+02:00", "from"],
    ["to=1767225600000", "to"],
    ["to=", "to"],
    ["q=", "q"],
    ["q=%20%09", "q"],
    [`q=${"x".repeat(257)}`, "q"],
    ["field=a.b", "value"],
    ["value=x", "field"],
    ["field=&value=x", "field"],
    [`field=${"x".repeat(257)}&value=x`, "field"],
    [`field=x&value=${"x".repeat(513)}`, "value"],
    ["q=a%00b", "q"],
    ["endpoint_id=%00", "endpoint_id"],
    ["endpoint_id=", "endpoint_id"],
    ["q=%ff", "q"],
    ["q=%", "q"],
    ["q=%zz", "q"],
    ["%ff=1", "query"],
    ["=1", '""'],
    ["=1&=2", '""'],
    ["=%zz", '""'],
    ["=%00", '""'],
    ["signature-valid=true", "signature-valid"],
    ["Provider=stripe", "Provider"],
    ["__proto__=1", "__proto__"],
    ["page[]=1", "page\\[\\]"],
    ["attempt_status=lost", "attempt_status"],
  ];
  for (const [query, parameter] of cases)
    it(`of ${query.slice(0, 40)} is 400 and the message names ${parameter}`, async () => {
      const answer = await world.client.send({
        method: "GET",
        path: `/events?${query}`,
        key: world.key,
      });
      expect(answer.status, answer.text).toBe(400);
      expect(answer.json.error.message).toMatch(new RegExp(`^${parameter}: `));
    });

  it("of the facets takes no page, limit or delivery_summary", async () => {
    for (const query of ["page=1", "limit=1", "delivery_summary=true"]) {
      const path = `/events/facets?${query}`;
      expect((await world.client.send({ method: "GET", path, key: world.key })).status).toBe(400);
    }
  });

  it("reaches the read side as it was meant", async () => {
    const query = new URLSearchParams({
      page: "3",
      limit: "7",
      endpoint_id: world.endpointId,
      provider: "github",
      signature_valid: "false",
      from: "2026-01-01T00:00:00.0001+02:00",
      to: "2026-01-02t00:00:00z",
      q: "Ünï 100%_\\",
      field: "data.x",
      value: "",
      attempt_status: "dead",
      destination_id: world.destinationId,
    });
    const answer = await world.client.send({
      method: "GET",
      path: `/events?${query.toString()}`,
      key: world.key,
    });
    expect(answer.status, answer.text).toBe(200);
    expect(harness.fake.lastPage).toEqual({ offset: 14, limit: 7 });
    expect(harness.fake.lastFilter).toEqual({
      endpointId: world.endpointId,
      provider: "github",
      signatureValid: false,
      fromMs: Date.UTC(2025, 11, 31, 22) + 1,
      toMs: Date.UTC(2026, 0, 2),
      q: "Ünï 100%_\\",
      field: { path: "data.x", value: "" },
      attemptStatus: "dead",
      destinationId: world.destinationId,
    });
  });

  it("has + for a space, however many", async () => {
    const path = "/events?q=a+b+c%2Bd";
    expect((await world.client.send({ method: "GET", path, key: world.key })).status).toBe(200);
    expect(harness.fake.lastFilter).toEqual({ q: "a b c+d" });
  });

  it("counts characters in q: 256 emoji pass", async () => {
    const path = `/events?q=${encodeURIComponent("🎉".repeat(256))}`;
    expect((await world.client.send({ method: "GET", path, key: world.key })).status).toBe(200);
  });

  it("of a page past all numbers is an empty page: it was an error beyond the exact ones", async () => {
    for (const page of ["9007199254740992", "99999999999999999999", "9".repeat(400)])
      for (const path of ["/projects", "/events"]) {
        const answer = await world.client.send({
          method: "GET",
          path: `${path}?page=${page}&limit=100`,
          key: world.key,
        });
        expect(answer.status).toBe(200);
        expect(answer.json).toMatchObject({
          data: [],
          pagination: { page: Number.MAX_SAFE_INTEGER, has_next: false, has_prev: true },
        });
      }
  });

  it("bounds dates to what stores take, and pages to exact offsets", async () => {
    const path = `/events?from=0000-01-01T00:00:00Z&to=9999-12-31T23:59:59Z&page=${Number.MAX_SAFE_INTEGER}&limit=100`;
    const answer = await world.client.send({ method: "GET", path, key: world.key });
    expect(answer.status).toBe(200);
    expect(answer.json.data).toEqual([]);
    expect(answer.json.pagination).toMatchObject({
      page: Number.MAX_SAFE_INTEGER,
      has_next: false,
      has_prev: true,
    });
    expect(harness.fake.lastFilter).toEqual({ fromMs: 0, toMs: Date.UTC(2200, 0) });
    expect(Number.isSafeInteger(harness.fake.lastPage!.offset)).toBe(true);
  });
});

describe("a path, a method or a header", () => {
  const methods: [method: string, target: string, status: number, allow: string | undefined][] = [
    ["PUT", "/projects", 405, "GET, HEAD, POST, OPTIONS"],
    ["DELETE", "/projects", 405, "GET, HEAD, POST, OPTIONS"],
    ["PATCH", "/events/facets", 405, "GET, HEAD, OPTIONS"],
    ["GET", "/endpoints/x/test", 405, "POST, OPTIONS"],
    ["HEAD", "/endpoints/x/test", 405, "POST, OPTIONS"],
    ["POST", "/openapi.json", 405, "GET, HEAD, OPTIONS"],
    ["POST", "/docs", 405, "GET, HEAD, OPTIONS"],
    ["TRACE", "/projects", 405, "GET, HEAD, POST, OPTIONS"],
    ["PROPFIND", "/projects", 405, "GET, HEAD, POST, OPTIONS"],
    ["OPTIONS", "/projects/x", 204, "GET, HEAD, PATCH, DELETE, OPTIONS"],
    ["GET", "/", 404, undefined],
    ["GET", "/projects/", 404, undefined],
    ["GET", "/Projects", 404, undefined],
    ["GET", "//projects", 404, undefined],
    ["GET", "/projects/%2e%2e/projects", 404, undefined],
    ["GET", "/projects?x=/../y", 401, undefined],
    ["GET", "/nowhere?x=%ff", 404, undefined],
  ];
  for (const [method, target, status, allow] of methods)
    it(`${method} ${target} answers ${status}${allow === undefined ? "" : ` and allows ${allow}`}`, async () => {
      const answer = await sendRaw(harness.baseUrl, { method, target });
      expect(answer.status).toBe(status);
      expect(answer.headers["allow"]).toBe(allow);
      if (method === "HEAD" || status === 204) expect(answer.text).toBe("");
      else expect(JSON.parse(answer.text).error.code).toBeTypeOf("string");
    });

  it("is answered so that no cache keeps it and no browser guesses its type: answers hold secrets", async () => {
    for (const target of ["/projects", "/nowhere", "/docs"]) {
      const { headers } = await sendRaw(harness.baseUrl, { method: "GET", target });
      expect(headers["cache-control"]).toBe("no-store");
      expect(headers["x-content-type-options"]).toBe("nosniff");
    }
  });

  it("HEAD answers like GET, without the body", async () => {
    const head = { method: "HEAD", key: world.key };
    expect((await world.client.send({ ...head, path: "/projects" })).status).toBe(200);
    expect((await world.client.send({ ...head, path: "/projects/x" })).status).toBe(404);
    expect((await world.client.send({ ...head, path: "/projects", key: null })).status).toBe(401);
  });

  const ids = [
    "%00",
    "%ff",
    "%F0%9F%8E%89",
    "'%20OR%201=1--",
    "prj_",
    "x".repeat(4_000),
    "PRJ_01JD5Z8A4V00000000000000ZZ",
  ];
  for (const id of ids)
    it(`the id ${id.slice(0, 30)} is 404 and never asked for`, async () => {
      const unknown = await world.client.send({
        method: "GET",
        path: "/projects/prj_01JD5Z8A4V00000000000000ZZ",
        key: world.key,
      });
      const answer = await world.client.send({
        method: "GET",
        path: `/projects/${id}`,
        key: world.key,
      });
      expect(answer.status).toBe(404);
      expect(answer.text).toBe(unknown.text);
    });

  for (const id of ["..", "%2e%2e", ".%2E", "."])
    it(`the destination ${id} is unknown: a replay to it was one to all`, async () => {
      const replayTo = async (destinationId: string) =>
        sendRaw(harness.baseUrl, {
          method: "POST",
          target: `/events/${world.eventId}/destinations/${destinationId}/replay`,
          headers: { authorization: `Bearer ${world.key}` },
        });
      const unknown = await replayTo("dst_01JD5Z8A4V00000000000000ZZ");
      const answer = await replayTo(id);
      expect(answer.status).toBe(404);
      expect(answer.text).toBe(unknown.text);
    });

  const accepts: [accept: string, status: number][] = [
    ["*/*", 200],
    ["", 200],
    ["application/*", 200],
    ["application/json;q=0.1, text/html", 200],
    ["text/html, */*;q=0.1", 200],
    ["APPLICATION/JSON", 200],
    ["application/json; charset=utf-8", 200],
    ["text/html", 406],
    ["application/json;q=0", 406],
    ["*/*, application/json;q=0", 406],
    ["application/json, */*;q=0", 200],
    ["application/json;q=0, */*", 406],
    ["application/json;version=1, application/json;q=0", 200],
    ["application/xml, text/*;q=0.5", 406],
  ];
  for (const [accept, status] of accepts)
    it(`Accept: ${accept} is ${status}`, async () => {
      const answer = await world.client.send({
        method: "GET",
        path: "/projects",
        key: world.key,
        headers: { accept },
      });
      expect(answer.status).toBe(status);
    });

  const keys: [authorization: string, status: number][] = [
    ["", 401],
    ["Bearer", 401],
    ["Bearer ", 401],
    ["Basic dXNlcjpwYXNz", 401],
    ["Bearer a b", 401],
    [`Bearer ${"x".repeat(5_000)}`, 401],
    ["Bearer ключ".replaceAll(/[^\x20-\x7e]/g, "\u00e9"), 401],
  ];
  for (const [authorization, status] of keys)
    it(`Authorization: ${authorization.slice(0, 20)} is ${status} with a challenge`, async () => {
      const answer = await world.client.send({
        method: "GET",
        path: "/projects",
        key: null,
        headers: { authorization },
      });
      expect(answer.status).toBe(status);
      expect(answer.headers.get("www-authenticate")).toBe("Bearer");
    });

  it("the scheme's name is case-insensitive", async () => {
    const headers = { authorization: `bearer  ${world.key}` };
    expect(
      (await world.client.send({ method: "GET", path: "/projects", key: null, headers })).status,
    ).toBe(200);
  });
});
