import { createHash, createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { VerificationRequest, VerificationResult } from "../../src/domain/verification.ts";
import { clientAddressOf } from "../../src/signing/client-address.ts";
import { makePreparedChecks } from "../../src/signing/prepared-checks.ts";
import { decodeStrict } from "../../src/signing/strict-bytes.ts";
import { makeRequest } from "../support/verify-requests.ts";
import { cpuSecondsOf } from "../support/cpu-seconds.ts";

const verdict = (parts: Partial<VerificationRequest>): VerificationResult => {
  const request = makeRequest(parts);
  return makePreparedChecks()(request)(request);
};
const reason = (parts: Partial<VerificationRequest>): string => verdict(parts).reason;
const mac = (text: string | Uint8Array, secret = "s3cret"): string =>
  createHmac("sha256", secret).update(text).digest("hex");

describe("strict decoding", () => {
  it.each([
    ["hex", "0g"],
    ["hex", "abc"],
    ["hex", "ab "],
    ["base64", "AA"],
    ["base64", "AB=="],
    ["base64", "A_=="],
    ["base64", "AA==\n"],
    ["base64url", "A+8"],
    ["base64url", "AB"],
    ["base64url", "AA="],
  ] as const)("refuses %s %j", (encoding, text) => expect(decodeStrict(text, encoding)).toBeNull());

  it("takes hex in any case and base64url with or without its padding", () => {
    expect(decodeStrict("aB", "hex")).toEqual(Buffer.from([0xab]));
    expect(decodeStrict("_w", "base64url")).toEqual(Buffer.from([0xff]));
    expect(decodeStrict("_w==", "base64url")).toEqual(Buffer.from([0xff]));
  });
});

describe("HMAC", () => {
  const body = Buffer.from("{}");
  const timed = {
    header: "X-S",
    timestamp_header: "X-T",
    id_header: "X-I",
    signed_payload: "{id}.{timestamp}.{body}",
  };

  it("fails closed without a secret, with one that is not in its encoding and without settings", () => {
    expect(reason({ secret: null })).toBe("missing_secret");
    expect(reason({ secret: "" })).toBe("missing_secret");
    expect(reason({ config: { header: "X-S", secret_encoding: "hex" }, secret: "zz" })).toBe(
      "malformed_secret",
    );
    const empty = { header: "X-S", secret_encoding: "base64", secret_prefix: "whsec_" };
    expect(reason({ config: empty, secret: "whsec_" })).toBe("missing_secret");
    expect(verdict({ config: {} })).toMatchObject({
      reason: "missing_config",
      message: expect.stringContaining("verification_config.header"),
    });
  });

  it("fails closed with a public key as its secret, with which anybody could sign", () => {
    const secret = "-----BEGIN RSA PUBLIC KEY-----\nMII";
    const headers: [string, string][] = [["X-S", mac("{}", secret)]];
    expect(reason({ config: { header: "X-S" }, secret, body, headers })).toBe("malformed_secret");
  });

  it("refuses signature, timestamp and id headers that were sent twice", () => {
    const t = String(Math.floor(makeRequest().nowMs / 1000));
    const good: [string, string][] = [
      ["X-S", mac(`a.${t}.{}`)],
      ["X-T", t],
      ["X-I", "a"],
    ];
    expect(reason({ config: timed, body, headers: good })).toBe("ok");
    const twice = (index: number): [string, string][] => [...good, good[index] ?? ["", ""]];
    expect(reason({ config: timed, body, headers: twice(0) })).toBe("duplicate_signature_header");
    expect(reason({ config: timed, body, headers: twice(1) })).toBe("duplicate_timestamp_header");
    expect(reason({ config: timed, body, headers: twice(2) })).toBe("duplicate_id_header");
  });

  it("refuses a signature header that was sent twice under the second of its names, which was not looked at", () => {
    const config = { header: ["X-A", "X-B"] };
    const [good, other] = [mac(body), "0".repeat(64)];
    const headers: [string, string][] = [
      ["X-A", good],
      ["X-B", other],
    ];
    expect(reason({ config, body, headers })).toBe("ok");
    expect(reason({ config, body, headers: [...headers, ["X-B", good]] })).toBe(
      "duplicate_signature_header",
    );
  });

  it("takes blanks and tabs around the entries of a header, and no other space: U+00A0 was cut off as well", () => {
    const t = Math.floor(makeRequest().nowMs / 1000);
    const stripe = { provider: "stripe", methodIsExplicit: false, config: {}, body } as const;
    const list = { config: { header: "X-S", header_format: "list" }, body } as const;
    const withSpace = (space: string): string[] => [
      reason({
        ...stripe,
        headers: [["Stripe-Signature", `t=${t},${space}v1=${mac(`${t}.{}`)}${space},v0=1`]],
      }),
      reason({ ...list, headers: [["X-S", `${space}${mac(body)}${space},other`]] }),
    ];
    for (const space of ["", " ", " \t"]) expect(withSpace(space)).toEqual(["ok", "ok"]);
    for (const space of ["\u00a0", "\ufeff", "\v"])
      expect(withSpace(space)).toEqual(["no_supported_signature", "malformed_signature_header"]);
  });

  it("refuses two timestamps in one header, which a proxy that joins headers would make", () => {
    const headers: [string, string][] = [
      ["Stripe-Signature", `t=1,v1=${"0".repeat(64)}, t=2,v1=${"0".repeat(64)}`],
    ];
    const stripe = { provider: "stripe", methodIsExplicit: false, config: {} } as const;
    expect(reason({ ...stripe, headers })).toBe("malformed_signature_header");
  });

  it("goes by the signed timestamp of Linear: neither does a fresh header refresh a stale body, nor a stale or odd one spoil a fresh one", () => {
    const { nowMs } = makeRequest();
    const linear = { provider: "linear", methodIsExplicit: false, config: {} } as const;
    const send = (bodyMs: unknown, headerMs?: string): string => {
      const text = Buffer.from(JSON.stringify({ webhookTimestamp: bodyMs }));
      const headers: [string, string][] = [["Linear-Signature", mac(text)]];
      if (headerMs !== undefined) headers.push(["Linear-Timestamp", headerMs]);
      return reason({ ...linear, body: text, headers });
    };
    expect(send(nowMs)).toBe("ok");
    expect(send(nowMs, String(nowMs))).toBe("ok");
    expect(send(nowMs - 61_000, String(nowMs))).toBe("timestamp_too_old");
    for (const header of [String(nowMs - 61_000), String(Math.floor(nowMs / 1_000)), "now", ""])
      expect(send(nowMs, header)).toBe("ok");
    expect(send(undefined, String(nowMs + 61_000))).toBe("timestamp_too_new");
    expect(send(undefined, "now")).toBe("malformed_timestamp");
    expect(send({ a: 1 })).toBe("malformed_timestamp");
    expect(send(String(nowMs))).toBe("ok");
  });

  it("refuses a request as soon as one of its signed timestamps is stale, whichever it is", () => {
    const { nowMs } = makeRequest();
    const config = { ...timed, id_header: "X-I", timestamp_body_field: "at" };
    const send = (headerAgo: number, bodyAgo: number): string => {
      const [inHeader, inBody] = [headerAgo, bodyAgo].map((ago) => Math.floor(nowMs / 1_000) - ago);
      const text = JSON.stringify({ at: inBody });
      const headers: [string, string][] = [
        ["X-S", mac(`a.${inHeader}.${text}`)],
        ["X-T", String(inHeader)],
        ["X-I", "a"],
      ];
      return reason({ config, body: Buffer.from(text), headers });
    };
    expect(send(300, 300)).toBe("ok");
    expect(send(301, 0)).toBe("timestamp_too_old");
    expect(send(0, 301)).toBe("timestamp_too_old");
  });

  it("takes a timestamp as far ahead as the tolerance, and any where that is off", () => {
    const { nowMs } = makeRequest();
    const config = { header: "X-S", timestamp_header: "X-T", signed_payload: "{timestamp}.{body}" };
    const send = (aheadSeconds: number, settings: object = {}): string => {
      const at = String(Math.floor(nowMs / 1_000) + aheadSeconds);
      const headers: [string, string][] = [
        ["X-S", mac(`${at}.x`)],
        ["X-T", at],
      ];
      return reason({ config: { ...config, ...settings }, body: Buffer.from("x"), headers });
    };
    expect(send(300)).toBe("ok");
    expect(send(301)).toBe("timestamp_too_new");
    for (const ahead of [-1_000_000, 1_000_000])
      expect(send(ahead, { tolerance_seconds: 0 })).toBe("ok");
  });

  it("reads the time of a genuine body however large it is", () => {
    const config = { header: "X-S", timestamp_body_field: "at" };
    const send = (agoSeconds: number): string => {
      const at = Math.floor(makeRequest().nowMs / 1_000) - agoSeconds;
      const text = JSON.stringify({ at, text: "x".repeat(1024 * 1024) });
      return reason({ config, body: Buffer.from(text), headers: [["X-S", mac(text)]] });
    };
    expect(send(0)).toBe("ok");
    expect(send(301)).toBe("timestamp_too_old");
  });

  it("does without the timestamp of the signature header where timestamp_optional says so, and only there", () => {
    const config = {
      header: "X-S",
      header_format: "key_value",
      timestamp_key: "t",
      signature_key: "v1",
    };
    const send = (settings: object): string =>
      reason({ config: { ...config, ...settings }, body, headers: [["X-S", `v1=${mac(body)}`]] });
    expect(send({ timestamp_optional: true })).toBe("ok");
    expect(send({ timestamp_optional: false })).toBe("malformed_signature_header");
  });

  it("is of the configured kind: a whole digest behind another prefix of the same length is malformed", () => {
    const config = { header: "X-S", prefix: "v0=" };
    const send = (prefix: string): string =>
      reason({ config, body, headers: [["X-S", prefix + mac(body)]] });
    expect(["v0=", "v1=", "V0=", "v0:"].map(send)).toEqual([
      "ok",
      ...Array<string>(3).fill("malformed_signature_header"),
    ]);
  });

  it("reads a signed timestamp from a dotted path of the body, and no body that is costly to parse", () => {
    const config = {
      header: "X-S",
      timestamp_body_field: "meta.at",
      signed_payload: "{timestamp}.{body}",
    };
    const at = Math.floor(makeRequest().nowMs / 1000);
    const text = Buffer.from(JSON.stringify({ text: '\\"[[{{', meta: { at } }));
    const sign = (bytes: Uint8Array, time: number | string): [string, string][] => [
      ["X-S", mac(Buffer.concat([Buffer.from(`${time}.`), bytes]))],
    ];
    expect(reason({ config, body: text, headers: sign(text, at) })).toBe("ok");
    // Brackets within texts nest nothing, and 255 lists in the body's object do.
    const quoted = Buffer.from(JSON.stringify({ text: `"${"[".repeat(300)}`, meta: { at } }));
    expect(reason({ config, body: quoted, headers: sign(quoted, at) })).toBe("ok");
    const nested = (depth: number): Buffer =>
      Buffer.from(`{"a":${"[".repeat(depth)}${"]".repeat(depth)},"meta":{"at":${at}}}`);
    for (const [depth, outcome] of [
      [255, "ok"],
      [256, "malformed_timestamp"],
    ] as const)
      expect(reason({ config, body: nested(depth), headers: sign(nested(depth), at) })).toBe(
        outcome,
      );
    const deep = Buffer.from("[".repeat(1000));
    expect(reason({ config, body: deep, headers: sign(deep, "") })).toBe("malformed_timestamp");
    const large = Buffer.from(JSON.stringify({ meta: { at }, text: "x".repeat(1024 * 1024) }));
    expect(verdict({ config, body: large, headers: sign(large, at) })).toMatchObject({
      reason: "malformed_timestamp",
      message: expect.stringContaining("larger than 1 MiB") as string,
    });
    const none = Buffer.from("[]");
    expect(reason({ config, body: none, headers: sign(none, "") })).toBe("missing_timestamp");
  });

  it("signs the path of the target as it was sent", () => {
    const config = { header: "X-S", signed_payload: "{method} {path} {body}" };
    const parts = { config, body, url: "https://Relay.example//in/%7Etoken?b=1#c" };
    expect(reason({ ...parts, headers: [["x-s", mac("POST //in/%7Etoken {}")]] })).toBe("ok");
    expect(reason({ ...parts, url: "https://a", headers: [["x-s", mac("POST / {}")]] })).toBe("ok");
  });

  it("hints at blanks around the stored secret and never shows secret or digest", () => {
    const result = verdict({ secret: " s3cret", headers: [["X-Signature", "ab".repeat(32)]] });
    expect(result).toMatchObject({ reason: "signature_mismatch" });
    expect(result.message).toContain("white space");
    expect(result.message).not.toContain("s3cret");
  });
});

describe("Twilio", () => {
  const form: [string, string] = ["Content-Type", "application/x-www-form-urlencoded"];
  const twilio = {
    provider: "twilio",
    method: "twilio_signature",
    methodIsExplicit: false,
    config: {},
    secret: "tok",
  } as const;
  const sign = (text: string): [string, string] => [
    "X-Twilio-Signature",
    createHmac("sha1", "tok").update(text).digest("base64"),
  ];
  const url = "https://a.example/x";

  it("sorts values of a name and counts equal pairs once", () => {
    const body = Buffer.from("b=2&a=z&a=y&a=y");
    expect(reason({ ...twilio, url, body, headers: [form, sign(`${url}ayazb2`)] })).toBe("ok");
  });

  // Signature and header as twilio-node 6.3.1 makes them: getExpectedTwilioSignature(secret, url, params, "HMAC_SHA256").
  it("is genuine under SHA-256, too, with which a SharedKey signs: each such webhook was refused as malformed", () => {
    const settings: [string, string] = [
      "X-Twilio-Webhooks-Signature-Settings",
      "key=webhooks_sharedkey_1,algorithm=HMAC_SHA256",
    ];
    const signature: [string, string] = [
      "X-Twilio-Signature",
      "D2tBGnqt6MgsZnW+qgSQRqicsz593fDwNg3u6k02q7M=",
    ];
    const headers = [form, settings, signature];
    const parts = { ...twilio, url, headers };
    expect(reason({ ...parts, body: Buffer.from("To=%2B1&Body=h%C3%A9") })).toBe("ok");
    expect(verdict({ ...parts, body: Buffer.from("To=%2B1&Body=x") })).toMatchObject({
      reason: "signature_mismatch",
      message: expect.stringContaining("SharedKey"),
    });
  });

  it("is not genuine under SHA-256 unless Twilio's header names it, nor under SHA-1 where it does", () => {
    const body = Buffer.from("To=%2B1&Body=h%C3%A9");
    const signed = (algorithm: string): [string, string] => [
      "X-Twilio-Signature",
      createHmac(algorithm, "tok").update(`${url}BodyhéTo+1`).digest("base64"),
    ];
    const named = (name: string): [string, string] => [
      "X-Twilio-Webhooks-Signature-Settings",
      `key=webhooks_sharedkey_1, algorithm=${name}`,
    ];
    const reasonOf = (...headers: [string, string][]) =>
      reason({ ...twilio, url, body, headers: [form, ...headers] });
    expect(reasonOf(signed("sha256"), named("HMAC_SHA256"))).toBe("ok");
    expect(reasonOf(signed("sha1"), named("HMAC_SHA1"))).toBe("ok");
    expect(reasonOf(signed("sha1"))).toBe("ok");
    const refused = "malformed_signature_header";
    expect(reasonOf(signed("sha256"))).toBe(refused);
    expect(reasonOf(signed("sha256"), named("HMAC_SHA512"))).toBe(refused);
    expect(reasonOf(signed("sha256"), named("HMAC_SHA256"), named("HMAC_SHA256"))).toBe(refused);
    expect(reasonOf(signed("sha1"), named("HMAC_SHA256"))).toBe(refused);
  });

  it("takes a hash only from the URL that was signed", () => {
    const body = Buffer.from("{}");
    const hash = createHash("sha256").update(body).digest("hex");
    const typed = { ...twilio, config: { url: "https://typed.example/t" }, body };
    const forged = `${url}?bodySHA256=${hash}`;
    expect(reason({ ...typed, url: forged, headers: [sign("https://typed.example/t")] })).toBe(
      "body_hash_mismatch",
    );
    const genuine = sign(`https://typed.example/t?bodySHA256=${hash}`);
    expect(reason({ ...typed, url: forged, headers: [genuine] })).toBe("ok");
  });

  it("does not take a body for a form because one of two content types says so", () => {
    const json: [string, string] = ["content-type", "application/json"];
    const headers = [form, json, sign(`${url}a1`)];
    expect(reason({ ...twilio, url, body: Buffer.from("a=1"), headers })).toBe("body_hash_missing");
  });

  it.each([
    ["the body that was signed, as a form too", '{"a":1}', form, "ok"],
    ["another body", '{"a":2}', null, "body_hash_mismatch"],
    ["a body that was taken away", "", null, "body_hash_mismatch"],
    ["a body that was taken away, called a form", "", form, "body_hash_mismatch"],
    ["another body, called a form", "a=1", form, "body_hash_mismatch"],
  ] as [string, string, [string, string] | null, string][])(
    "a signed bodySHA256 is looked at with %s",
    (_what, text, type, expected) => {
      const hash = createHash("sha256").update('{"a":1}').digest("hex");
      const signed = `${url}?bodySHA256=${hash}`;
      const headers = [...(type === null ? [] : [type]), sign(signed)];
      const body = Buffer.from(text);
      expect(reason({ ...twilio, url: signed, body, headers })).toBe(expected);
    },
  );

  it("a form whose parameters were signed needs no hash, whatever the URL says", () => {
    const signed = `${url}?bodySHA256=${"0".repeat(64)}`;
    const headers = [form, sign(`${signed}a1`)];
    expect(reason({ ...twilio, url: signed, body: Buffer.from("a=1"), headers })).toBe("ok");
  });

  it.each([
    ["no signature", [], "missing_signature_header"],
    ["two", [sign(""), sign("")], "duplicate_signature_header"],
    ["a short one", [["X-Twilio-Signature", "AAAA"]], "malformed_signature_header"],
  ] as [string, [string, string][], string][])("refuses %s", (_what, headers, expected) => {
    expect(reason({ ...twilio, headers: [form, ...headers] })).toBe(expected);
  });

  it.each([
    ["a=%7e%e2%82%ac+b", "a=~%E2%82%AC%20b"],
    ["a=%ef%bb%bfx&b=%00", "a=%EF%BB%BFx&b=%00"],
    // What is not percent-encoded UTF-8 stands for itself.
    ["a=%zz&b=%27", "a=%25zz&b='"],
    ["a=%c3&b=%27", "a=%25c3&b='"],
    ["a=%ed%a0%80&b=%27", "a=%25ed%25a0%2580&b='"],
  ])("the query %s may have been signed as %s", (received, signed) => {
    const parts = { ...twilio, url: `${url}?${received}`, body: Buffer.from("x=1") };
    expect(reason({ ...parts, headers: [form, sign(`${url}?${signed}x1`)] })).toBe("ok");
  });

  it.each([
    ["%=%", "%41=%41"],
    ["%ff=", "%41="],
  ])(
    "a query of thousands of %s costs no more than one of %s: each such request kept the ingest for 0.2 s",
    async (broken, wellFormed) => {
      const costOf = (pair: string): Promise<number> => {
        const query = `${pair}&`.repeat(3_700);
        const parts = { ...twilio, url: `${url}?${query}`, body: Buffer.from("x=1") };
        return cpuSecondsOf(() => {
          for (let index = 0; index < 20; index += 1)
            expect(reason({ ...parts, headers: [form, sign(url)] })).toBe("signature_mismatch");
        });
      };
      // The first rounds are slow for the sake of being the first.
      await costOf(wellFormed);
      const seconds = await costOf(wellFormed);
      expect(await costOf(broken)).toBeLessThan(5 * seconds);
    },
  );

  it("refuses forms that are not UTF-8, not percent-encoding or endless", () => {
    for (const body of [
      Buffer.from([0xff]),
      Buffer.from("a=%zz"),
      Buffer.from("a&".repeat(3000)),
    ]) {
      expect(reason({ ...twilio, body, headers: [form, sign(url)] })).toBe("malformed_body");
    }
  });
});

describe("bearer and basic", () => {
  it("accept secrets beyond ASCII, as text and as bytes", () => {
    const parts = { method: "bearer_token", config: {}, secret: "gehéim" } as const;
    expect(reason({ ...parts, headers: [["Authorization", "Bearer gehéim"]] })).toBe("ok");
    const bytes = Buffer.from("gehéim").toString("latin1");
    expect(reason({ ...parts, headers: [["Authorization", `Bearer ${bytes}`]] })).toBe("ok");
    // Of each character the low byte is right.
    const cut = "Bearer geh\u01c3\u01a9im";
    expect(reason({ ...parts, headers: [["Authorization", cut]] })).toBe("credentials_mismatch");
  });

  it("refuse another scheme, no credentials and a header sent twice", () => {
    const parts = { method: "bearer_token", config: {} } as const;
    for (const value of ["Basic s3cret", "Bearer", "Bearer ", "Bearers3cret"]) {
      expect(reason({ ...parts, headers: [["Authorization", value]] })).toBe(
        "malformed_authorization",
      );
    }
    const good: [string, string] = ["Authorization", "bearer   s3cret"];
    expect(reason({ ...parts, headers: [good] })).toBe("ok");
    expect(reason({ ...parts, headers: [good, good] })).toBe("duplicate_authorization");
    expect(reason({ ...parts, secret: null, headers: [good] })).toBe("missing_secret");
  });

  it("split user name and password at the first colon", () => {
    const encode = (text: string): [string, string] => [
      "Authorization",
      `Basic ${Buffer.from(text).toString("base64")}`,
    ];
    const parts = { method: "basic_auth", config: { username: "u" }, secret: "p:q" } as const;
    expect(reason({ ...parts, headers: [encode("u:p:q")] })).toBe("ok");
    expect(reason({ ...parts, headers: [encode("u:p")] })).toBe("credentials_mismatch");
    expect(reason({ ...parts, headers: [encode("v:p:q")] })).toBe("credentials_mismatch");
    expect(reason({ ...parts, headers: [encode("up")] })).toBe("malformed_authorization");
    expect(reason({ ...parts, config: {}, headers: [encode("u:p:q")] })).toBe("missing_config");
    expect(reason({ ...parts, secret: "" })).toBe("missing_secret");
  });
});

describe("source addresses", () => {
  const forwarded = (value: string): [string, string][] => [["X-Forwarded-For", value]];
  it.each([
    ["the peer without trusted proxies", "192.0.2.1", forwarded("1.1.1.1"), [], "192.0.2.1"],
    [
      "the last untrusted hop",
      "10.0.0.1",
      forwarded("1.1.1.1, 2.2.2.2, 10.0.0.2"),
      ["10.0.0.0/8"],
      "2.2.2.2",
    ],
    [
      "the leftmost where all are trusted",
      "10.0.0.1",
      forwarded("10.0.0.3, 10.0.0.2"),
      ["10.0.0.0/8"],
      "10.0.0.3",
    ],
    ["the proxy itself without the header", "10.0.0.1", [], ["10.0.0.0/8"], "10.0.0.1"],
    [
      "through several headers",
      "::1",
      [...forwarded("1.1.1.1"), ...forwarded("2.2.2.2")],
      ["::1"],
      "2.2.2.2",
    ],
    ["without ports", "::1", forwarded("1.1.1.1:80"), ["::1"], "1.1.1.1"],
    ["without brackets", "::1", forwarded("[2001:db8::1]:80"), ["::1"], "2001:db8::1"],
    ["in one way of writing", "::1", forwarded("2001:DB8:0::1"), ["::1"], "2001:db8::1"],
    ["of a mapped client", "::1", forwarded("::ffff:1.1.1.1"), ["::1"], "1.1.1.1"],
    ["of a mapped proxy", "::ffff:10.0.0.1", forwarded("1.1.1.1"), ["10.0.0.0/8"], "1.1.1.1"],
    ["nothing for garbage", "::1", forwarded("1.1.1.1, unknown"), ["::1"], null],
    ["nothing for a peer that is none", "", [], [], null],
    ["nothing for an endless chain", "::1", forwarded("::1,".repeat(200)), ["::1"], null],
    ["the peer when the list cannot be read", "::1", forwarded("1.1.1.1"), ["x"], "::1"],
    ["a link-local peer without its zone", "fe80::1%eth0", [], [], "fe80::1"],
  ] as [string, string, [string, string][], string[], string | null][])(
    "give %s",
    (_what, peer, headers, trusted, expected) => {
      expect(clientAddressOf(peer, headers, trusted)).toBe(expected);
    },
  );

  it("come from a list of proxies that is read once, and not again for each request", () => {
    let reads = 0;
    const trusted = new Proxy(["10.0.0.0/8"], {
      get(list, key) {
        if (key === "0") reads += 1;
        return Reflect.get(list, key) as unknown;
      },
    });
    for (const client of ["1.1.1.1", "2.2.2.2", "3.3.3.3"]) {
      expect(clientAddressOf("10.0.0.1", forwarded(client), trusted)).toBe(client);
    }
    expect(reads).toBe(1);
  });
});

describe("a prepared check", () => {
  it("serves the provider and method that it was prepared for alone, though the settings are the same object", () => {
    const checks = makePreparedChecks();
    const config = {};
    const judge = (parts: Partial<VerificationRequest>): string => {
      const request = makeRequest({ config, ...parts });
      return checks(request)(request).reason;
    };
    expect(judge({ method: "none" })).toBe("ok");
    expect(judge({ method: "bearer_token" })).toBe("missing_authorization");
    const github = { provider: "github", methodIsExplicit: false } as const;
    expect(judge(github)).toBe("missing_signature_header");
    expect(judge({ ...github, methodIsExplicit: true })).toBe("missing_config");
    expect(judge({ provider: "shopify", methodIsExplicit: false })).toBe(
      "missing_signature_header",
    );
    const stripe = { provider: "stripe", methodIsExplicit: false } as const;
    const headers: [string, string][] = [["X-Hub-Signature-256", `sha256=${mac('{"id":1}')}`]];
    expect(judge({ ...github, headers })).toBe("ok");
    expect(judge({ ...stripe, headers })).toBe("missing_signature_header");
  });
});
