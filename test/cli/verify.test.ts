import { execFile, spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { text as readText } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { runRelay } from "../support/relay-process.ts";

const PROGRAM = fileURLToPath(new URL("../../bin/relay.js", import.meta.url));

it.each(["SIGINT", "SIGTERM"] as const)(
  "relay verify that waits for its next line ends on %s: it went on until that line came",
  async (signal) => {
    const child = spawn(process.execPath, [PROGRAM, "verify"], {
      stdio: ["pipe", "pipe", "inherit"],
      env: { PATH: process.env["PATH"] ?? "" },
    });
    const ended = once(child, "exit");
    child.stdin.write('{"id":"first","provider":"github","secret":"s"}\n');
    const [verdict] = await once(child.stdout, "data");
    expect(JSON.parse(String(verdict))).toMatchObject({ id: "first", valid: false });
    child.kill(signal);
    const timer = setTimeout(() => child.kill("SIGKILL"), 10_000);
    expect(await ended).toEqual([0, null]);
    clearTimeout(timer);
  },
);

const IP_LIST = {
  provider: "custom",
  verification_method: "ip_allowlist",
  config: { allowed_ips: ["192.0.2.7"] },
  headers: { "X-Forwarded-For": "192.0.2.7" },
  remote_addr: "10.0.0.1",
};
const verify = async (lines: string, env: Record<string, string> = {}) => {
  const { stdout } = await runRelay(["verify"], env, lines);
  return stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
};

it("relay verify trusts the proxies of RELAY_TRUSTED_PROXIES where a line names none, and refuses a list that cannot be read: it trusted nobody, in silence", async () => {
  const lines = [
    IP_LIST,
    { ...IP_LIST, trusted_proxies: [] },
    { ...IP_LIST, trusted_proxies: ["10.0.0.0/40"] },
  ];
  const text = lines.map((line) => JSON.stringify(line)).join("\n");
  const answers = await verify(text, { RELAY_TRUSTED_PROXIES: "10.0.0.0/8" });
  expect(answers).toMatchObject([
    { valid: true },
    { valid: false, reason: "ip_not_allowed" },
    {
      valid: false,
      reason: "malformed_request",
      message: expect.stringMatching(/^trusted_proxies: "10.0.0.0\/40" is neither/),
    },
  ]);
});

it("relay verify takes a time without a zone as UTC, and a byte order mark before the first line", async () => {
  const body = Buffer.from("{}");
  const atSeconds = Date.UTC(2026, 10, 20, 12) / 1_000;
  const signature = createHmac("sha256", "whsec_x").update(`${atSeconds}.{}`).digest("hex");
  const line = {
    provider: "stripe",
    secret: "whsec_x",
    headers: { "Stripe-Signature": `t=${atSeconds},v1=${signature}` },
    body_base64: body.toString("base64"),
    now: "2026-11-20T12:00:00",
  };
  const text = `\uFEFF${JSON.stringify(line)}\n${JSON.stringify({ ...line, now: "noon" })}`;
  expect(await verify(text, { TZ: "America/New_York" })).toMatchObject([
    { valid: true },
    { valid: false, reason: "malformed_request", message: expect.stringMatching(/^now: /) },
  ]);
});

it("relay verify goes by the clock where a line names no time", async () => {
  const at = Math.floor(Date.now() / 1_000);
  const signature = createHmac("sha256", "k").update(`${at}.{}`).digest("hex");
  const line = {
    provider: "stripe",
    secret: "k",
    headers: { "Stripe-Signature": `t=${at},v1=${signature}` },
    body_base64: Buffer.from("{}").toString("base64"),
  };
  const lines = [line, { ...line, now: null }];
  expect(await verify(lines.map((one) => JSON.stringify(one)).join("\n"))).toMatchObject([
    { valid: true },
    { valid: true },
  ]);
});

it("relay verify passes over empty lines, and takes POST where a line names no method", async () => {
  const line = {
    provider: "custom",
    verification_method: "hmac_sha256",
    secret: "k",
    config: { header: "X-Signature", signed_payload: "{method}.{body}" },
    headers: { "X-Signature": createHmac("sha256", "k").update("POST.x").digest("hex") },
    body_base64: Buffer.from("x").toString("base64"),
  };
  const lines = [JSON.stringify(line), "", JSON.stringify({ ...line, method: "PUT" }), "  ", ""];
  expect(await verify(lines.join("\r\n"))).toMatchObject([{ valid: true }, { valid: false }]);
});

it("relay verify refuses a day that there is not, and what is no time in RFC 3339: 30 February was read as 2 March", async () => {
  const times = ["2026-02-30T12:00:00Z", "2026-02-30T12:00:00", "20 Nov 2026 12:00", "", 0];
  const lines = times.map((now) => JSON.stringify({ provider: "github", secret: "s", now }));
  const message = "now: must be a time such as 2026-11-20T12:00:00Z, or null for the clock";
  expect(await verify(lines.join("\n"))).toEqual(
    times.map(() => ({ id: null, valid: false, reason: "malformed_request", message })),
  );
});

it("relay verify reads an address with its zone, as ingest does", async () => {
  const line = { ...IP_LIST, config: { allowed_ips: ["fe80::/10"] }, headers: {} };
  const [verdict] = await verify(JSON.stringify({ ...line, remote_addr: "fe80::1%eth0" }));
  expect(verdict).toMatchObject({ valid: true, reason: "ok" });
});

it("relay verify asks for the address that an IP list needs: where it was missing, X-Forwarded-For and the proxies were blamed", async () => {
  const lines = [undefined, "localhost"].map((remote_addr) =>
    JSON.stringify({ ...IP_LIST, headers: {}, remote_addr }),
  );
  const message = "remote_addr: must be the IP address that the request came from";
  expect(await verify(lines.join("\n"))).toEqual(
    lines.map(() => ({ id: null, valid: false, reason: "malformed_request", message })),
  );
});

it("relay verify takes the header that a line's config names for a method that was chosen explicitly, which is treated like custom: it took the preset where that was the provider's own", async () => {
  const mac = (body: string) => createHmac("sha256", "k").update(body).digest("hex");
  const line = (provider: string, config: object, body: string, headers: object) => ({
    provider,
    verification_method: "hmac_sha256",
    secret: "k",
    config,
    now: "2023-11-14T22:13:20Z",
    headers,
    body_base64: Buffer.from(body).toString("base64"),
  });
  const old = '{"webhookTimestamp":1}';
  const linear = { header: "Linear-Signature" };
  const prefixed = { "X-Hub-Signature-256": `sha256=${mac("x")}` };
  const lines = [
    line("linear", linear, old, { "Linear-Signature": mac(old) }),
    line("github", { header: "X-Hub-Signature-256" }, "x", { "X-Hub-Signature-256": mac("x") }),
    // Those of the preset: without a header, or without a method.
    line("linear", {}, old, { "Linear-Signature": mac(old) }),
    line("github", {}, "x", prefixed),
    {
      ...line("github", { header: "X-Hub-Signature-256" }, "x", prefixed),
      verification_method: null,
    },
  ];
  expect(await verify(lines.map((one) => JSON.stringify(one)).join("\n"))).toMatchObject([
    { reason: "ok" },
    { reason: "ok" },
    { reason: "timestamp_too_old" },
    { reason: "ok" },
    { reason: "ok" },
  ]);
});

it("regression: relay verify takes away the blanks round a header's value, as a server does: what ingest accepts was refused", async () => {
  const mac = createHmac("sha256", "k").update("x").digest("hex");
  const line = (values: unknown) => ({
    provider: "github",
    secret: "k",
    headers: { "X-Hub-Signature-256": values },
    body_base64: Buffer.from("x").toString("base64"),
  });
  const good = `sha256=${mac}`;
  const lines = [` \t${good}\t `, [`${good} `], `\u00a0${good}`, `sha256= ${mac}`].map(line);
  expect(await verify(lines.map((one) => JSON.stringify(one)).join("\n"))).toMatchObject([
    { valid: true },
    { valid: true },
    { valid: false },
    { valid: false },
  ]);
});

it("regression: relay verify refuses a directory as its input in one line: it answered nothing, and exit 0", async () => {
  const { stdout, stderr } = await promisify(execFile)("sh", [
    "-c",
    '"$0" "$1" verify < /; echo $?',
    process.execPath,
    PROGRAM,
  ]);
  expect(stdout).toBe("2\n");
  expect(stderr).toBe("relay: stdin is a directory: give a file with one JSON request per line\n");
});

it("regression: relay verify says that a line is not UTF-8: it read another secret, and said that the signature did not match", async () => {
  const secret = "schlüssel";
  const line = (encoding: "utf8" | "latin1") =>
    Buffer.from(
      JSON.stringify({
        provider: "github",
        secret,
        headers: {
          "X-Hub-Signature-256": `sha256=${createHmac("sha256", secret).update("").digest("hex")}`,
        },
      }),
      encoding,
    );
  const child = spawn(process.execPath, [PROGRAM, "verify"], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { PATH: process.env["PATH"] ?? "" },
  });
  child.stdin.end(Buffer.concat([line("latin1"), Buffer.from("\n"), line("utf8")]));
  const [refused, read] = (await readText(child.stdout)).trim().split("\n");
  expect(JSON.parse(refused ?? "")).toMatchObject({
    reason: "malformed_request",
    message: "the line is not UTF-8",
  });
  expect(JSON.parse(read ?? "")).toMatchObject({ reason: "empty_body" });
});

it("regression: relay verify asks for the URL where that is signed: where it was missing, the secret was blamed", async () => {
  const url = "https://relay.example/in/token";
  const hmac = (algorithm: string, text: string) => createHmac(algorithm, "k").update(text);
  const twilio = {
    provider: "twilio",
    secret: "k",
    method: "GET",
    headers: { "X-Twilio-Signature": hmac("sha1", url).digest("base64") },
  };
  const custom = {
    provider: "custom",
    verification_method: "hmac_sha256",
    secret: "k",
    config: { header: "X-Signature", signed_payload: "{path}.{body}" },
    headers: { "X-Signature": hmac("sha256", "/in/token.x").digest("hex") },
    body_base64: Buffer.from("x").toString("base64"),
  };
  const token = {
    provider: "custom",
    verification_method: "jwt",
    secret: "k",
    config: { algorithms: ["HS256"], url_hash_claim: "url" },
  };
  const lines = [twilio, custom, token, { ...twilio, url }, { ...custom, url }];
  const known = { ...twilio, config: { url } };
  const answers = await verify([...lines, known].map((one) => JSON.stringify(one)).join("\n"));
  const message =
    "url: must be the endpoint's, with the query that the request had: it is part of what is signed";
  const refused = { id: null, valid: false, reason: "malformed_request", message };
  expect(answers.slice(0, 3)).toEqual([refused, refused, refused]);
  expect(answers.slice(3)).toMatchObject([{ valid: true }, { valid: true }, { valid: true }]);
});

it("relay verify takes the headers as an event's detail shows them, repeated ones too: it asked for an object", async () => {
  const body = Buffer.from('{"hello":"relay"}');
  const name = "X-Hub-Signature-256";
  const value = `sha256=${createHmac("sha256", "s").update(body).digest("hex")}`;
  const line = { provider: "github", secret: "s", body_base64: body.toString("base64") };
  const lists: readonly unknown[] = [
    [{ name, value }],
    [
      { name: name.toLowerCase(), value },
      { name, value },
    ],
    [{ name }],
    ["X-Hub-Signature-256"],
    "X-Hub-Signature-256",
  ];
  const text = lists.map((headers) => JSON.stringify({ ...line, headers })).join("\n");
  expect(await verify(text)).toMatchObject([
    { valid: true },
    { valid: false, reason: "duplicate_signature_header" },
    { valid: false, message: expect.stringMatching(/^headers\.0: /) },
    { valid: false, message: expect.stringMatching(/^headers\.0: /) },
    { valid: false, message: expect.stringMatching(/^headers: /) },
  ]);
});
