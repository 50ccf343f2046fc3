import { readFileSync } from "node:fs";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { NO_CIDRS, parseCidrs } from "../../src/domain/ip.ts";
import {
  checkReceiverUrl,
  isAllowedAddress,
  literalHost,
  toUri,
} from "../../src/domain/receiver-url.ts";

interface Vector {
  readonly url: string;
  readonly verdict: "accept" | "reject";
  readonly why: string;
  readonly stage: "static" | "policy" | "dns";
}
const vectors = JSON.parse(
  readFileSync(new URL("../vectors/receiver-urls.json", import.meta.url), "utf8"),
) as Vector[];
const loopback = parseCidrs(["127.0.0.0/8", "::1/128"]);
const verdictOf = (url: string, allow = NO_CIDRS) => {
  const verdict = checkReceiverUrl(url, allow);
  return verdict.ok ? "accept" : "reject";
};

describe("receiver URL vectors", () => {
  test.each(vectors.filter((vector) => vector.stage !== "dns"))(
    "$verdict $url ($why)",
    (vector) => {
      expect(verdictOf(vector.url)).toBe(vector.verdict);
    },
  );

  test.each(vectors.filter((vector) => vector.stage === "dns"))(
    "$url passes the text check: only its resolution is wrong",
    (vector) => {
      expect(verdictOf(vector.url)).toBe("accept");
    },
  );
});

test("regression: a host of 100,000 combining marks is refused before it is parsed: that took 23 s", () => {
  const url = `https://a${"\u0301\u0327".repeat(100_000)}.example.com/`;
  // Whatever parses throws.
  vi.stubGlobal("URL", null);
  try {
    expect(checkReceiverUrl(url, NO_CIDRS)).toEqual({
      ok: false,
      reason: "must not be longer than 2048 characters",
    });
  } finally {
    vi.unstubAllGlobals();
  }
});

test("regression: a host beyond ASCII is still accepted at the 20,000th check: it was refused after some thousand", () => {
  const url = "https://bücher.example.com/hook";
  const verdicts = new Set(Array.from({ length: 20_000 }, () => verdictOf(url)));
  expect([...verdicts]).toEqual(["accept"]);
});

describe("more receiver URLs of the same kinds", () => {
  test.each([
    "",
    "https://",
    "https:example.com",
    "https:/example.com",
    "https:///example.com/",
    "//example.com/hook",
    "/hook",
    "ftp://example.com/",
    "https://@example.com/",
    "https://:@example.com/",
    "https://example.com:65536/",
    "https://example.com:22/",
    "https://example.com:10080/",
    "https://8.8.8.8:6667/",
    "https://intranet/",
    "https://localhost./",
    "https://LOCALHOST/",
    "https://a.b.test/",
    "https://service.namespace.svc./",
    "https://x.onion/",
    "https://example.com../",
    "https://.example.com/",
    `https://${"a".repeat(64)}.example.com/`,
    "https://example.com/a\nb",
    "https://exa mple.com/",
    "https://[::1]/",
    "https://[::]/",
    "https://2130706433/",
    "https://0x7f.0.0.1:8443/",
    "https://168.63.129.16/",
    "https://*.example.com/",
    "https://1.0.0.127.ip6.arpa/",
  ])("rejects %j", (url) => {
    expect(verdictOf(url)).toBe("reject");
  });

  test.each([
    "HTTPS://EXAMPLE.COM/hook",
    "https://example.com./hook",
    "https://example.com:443/",
    "https://example.com/a@b",
    "https://example.com/?u=a@b",
    "https://example.com/%5C",
    "https://test.example.com/",
    "https://mylocalhost.com/",
    "https://latest.dev/x",
    `https://${"a".repeat(63)}.com/`,
  ])("accepts %j", (url) => {
    expect(verdictOf(url)).toBe("accept");
  });

  test("a trailing root dot is taken off, so that TLS and Host see the plain name", () => {
    const verdict = checkReceiverUrl("https://example.com./hook?x=1", NO_CIDRS);
    expect(verdict.ok && verdict.url.href).toBe("https://example.com/hook?x=1");
  });

  test("the reason says what to change, and what allows a receiver of one's own: it only told what is wrong", () => {
    const unless = "(on your own machine: allow its address in RELAY_ALLOW_PRIVATE_RECEIVERS)";
    expect(checkReceiverUrl("http://example.com/", NO_CIDRS)).toEqual({
      ok: false,
      reason: `must be https ${unless}`,
    });
    expect(checkReceiverUrl("https://10.0.0.1/", NO_CIDRS)).toEqual({
      ok: false,
      reason: `address 10.0.0.1 is not public ${unless}`,
    });
  });
});

describe("with private receivers allowed", () => {
  test.each([
    "http://127.0.0.1:4000/hook",
    "https://127.0.0.1:4000/",
    "http://[::1]:4000/",
    "http://localhost:4000/",
    "https://app.localhost/",
    "https://example.com/",
  ])("accepts %s inside the loopback ranges", (url) => {
    expect(verdictOf(url, loopback)).toBe("accept");
  });

  test.each([
    "http://10.0.0.1/",
    "https://10.0.0.1/",
    "http://8.8.8.8/",
    "http://user@127.0.0.1/",
    "ftp://127.0.0.1/",
    "http://127.0.0.1:25/",
    "http://169.254.169.254/",
  ])("still rejects %s", (url) => {
    expect(verdictOf(url, loopback)).toBe("reject");
  });

  test("localhost stays refused when other private ranges are allowed", () => {
    expect(verdictOf("http://localhost/", parseCidrs(["10.0.0.0/8"]))).toBe("reject");
  });

  test("plain http and private names pass the text check as right only inside the allowed ranges", () => {
    for (const url of ["http://example.com/", "https://receiver/", "https://nas.lan/"])
      expect(checkReceiverUrl(url, loopback)).toMatchObject({ ok: true, privateOnly: true });
    expect(checkReceiverUrl("https://example.com/", loopback)).toMatchObject({
      privateOnly: false,
    });
    expect(isAllowedAddress("8.8.8.8", true, loopback)).toBe(false);
    expect(isAllowedAddress("8.8.8.8", false, loopback)).toBe(true);
    expect(isAllowedAddress("127.0.0.1", true, loopback)).toBe(true);
    expect(isAllowedAddress("10.0.0.1", false, loopback)).toBe(false);
  });

  test("literal hosts are told from names", () => {
    expect(literalHost(new URL("https://[::1]/"))).toBe("::1");
    expect(literalHost(new URL("https://0x7f.1/"))).toBe("127.0.0.1");
    expect(literalHost(new URL("https://example.com/"))).toBeNull();
  });
});

describe("an accepted receiver URL as a URI", () => {
  test.each([
    ["https://example.com/hook?a=b&c=%20#d", "https://example.com/hook?a=b&c=%20#d"],
    ["HTTPS://Example.com", "HTTPS://Example.com"],
    ["https://example.com/é?tags[]=a|b", "https://example.com/%C3%A9?tags%5B%5D=a%7Cb"],
    ['https://example.com/{x}/"<>^`', "https://example.com/%7Bx%7D/%22%3C%3E%5E%60"],
    ["https://example.com/100%/%zz", "https://example.com/100%25/%25zz"],
    ["https://example.com/#a#b", "https://example.com/#a%23b"],
    ["https://example.com/\u2028😀ſ", "https://example.com/%E2%80%A8%F0%9F%98%80%C5%BF"],
    ["https://bücher.example:8443/x", "https://xn--bcher-kva.example:8443/x"],
    ["https://[2606:4700::1111]:8443/[1]", "https://[2606:4700::1111]:8443/%5B1%5D"],
  ])("of %s is %s", (text, uri) => {
    expect(toUri(text)).toBe(uri);
  });

  test("is what strict validators take, leads to the same host, and is a URI already", () => {
    const ajv = new Ajv2020();
    addFormats.default(ajv);
    const isUri = ajv.compile({ type: "string", format: "uri" });
    const rest = fc.string({
      unit: fc.oneof(fc.constantFrom(...Array.from('%#?/[]{}|"<>é')), fc.string()),
    });
    fc.assert(
      fc.property(
        fc.constantFrom("https://example.com/", "https://bücher.de?"),
        rest,
        (base, end) => {
          const verdict = checkReceiverUrl(base + end, NO_CIDRS);
          if (!verdict.ok) return;
          const uri = toUri(base + end);
          expect(isUri(uri), uri).toBe(true);
          expect(new URL(uri).host).toBe(verdict.url.host);
          expect(toUri(uri)).toBe(uri);
        },
      ),
    );
  });
});
