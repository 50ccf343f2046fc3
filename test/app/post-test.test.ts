import { expect, it } from "vitest";
import { postTest } from "../../src/app/post-test.ts";
import { reservePort } from "../../src/app/reserve-port.ts";

const SECRET = "top-secret-line1\nline2";

it.each([
  ["a value that no header takes", "authorization", `Bearer ${SECRET}`],
  ["a header that the client sets itself", "transfer-encoding", SECRET.replace("\n", " ")],
  ["a header that the client does not send", "expect", SECRET.replace("\n", " ")],
])("a reason never quotes what could not be sent: %s was told in full", async (_, name, value) => {
  const url = `http://127.0.0.1:${await reservePort("127.0.0.1")}/in/token`;
  const headers: [string, string][] = [[name, value]];
  const answer = await postTest({ url, method: "POST", headers, body: Buffer.from("{}") });
  expect(answer.kind).toBe("unreachable");
  expect(JSON.stringify(answer)).not.toContain("top-secret");
});

it("a refused connection is told by its code", async () => {
  const url = `http://127.0.0.1:${await reservePort("127.0.0.1")}/in/token`;
  expect(await postTest({ url, method: "POST", headers: [], body: Buffer.from("{}") })).toEqual({
    kind: "unreachable",
    reason: "the request failed (ECONNREFUSED)",
  });
});
