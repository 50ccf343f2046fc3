import type { HttpResponse } from "uWebSockets.js";
import { describe, expect, it } from "vitest";
import { formatAddress, makeAddressReader } from "../../../src/adapters/uws/remote-address.ts";

/** `2001:db8::ffff:c000:201`, with as many of the bytes before `ffff` as given. */
const addressOf = (...first: number[]): Uint8Array =>
  Uint8Array.from([...first, ...Array<number>(10 - first.length).fill(0), 255, 255, 192, 0, 2, 1]);

describe("an IPv6 address that holds an IPv4 one", () => {
  it("is shown as that one when it is its mapped form, and only then: whoever owns a /64 would pass any allowlist", () => {
    expect(formatAddress(addressOf())).toBe("192.0.2.1");
    expect(formatAddress(addressOf(0x20, 0x01, 0x0d, 0xb8))).toBe("2001:db8::ffff:c000:201");
    expect(formatAddress(addressOf(0, 0, 0, 0, 0, 0, 0, 0, 0, 1))).toBe("::1:ffff:c000:201");
    for (const byte of [10, 11]) {
      const notMapped = addressOf();
      notMapped[byte] = 0;
      expect(formatAddress(notMapped)).toContain(":c000:201");
    }
  });
});

describe("the reader of peers' addresses", () => {
  it("never shows one peer as another, whichever it was asked for before", () => {
    const read = makeAddressReader();
    const peers: [string, Uint8Array][] = [
      ["32.1.13.184", Uint8Array.of(0x20, 0x01, 0x0d, 0xb8)],
      ["32.1.13.185", Uint8Array.of(0x20, 0x01, 0x0d, 0xb9)],
      ["9.9.0.255", Uint8Array.of(9, 9, 0, 255)],
      ["9.9.1.0", Uint8Array.of(9, 9, 1, 0)],
      ["9.0.255.9", Uint8Array.of(9, 0, 255, 9)],
      ["9.1.0.9", Uint8Array.of(9, 1, 0, 9)],
      ["0.255.9.9", Uint8Array.of(0, 255, 9, 9)],
      ["1.0.9.9", Uint8Array.of(1, 0, 9, 9)],
      ["2001:db8::ffff:c000:201", addressOf(0x20, 0x01, 0x0d, 0xb8)],
      ["2001:db8:1::ffff:c000:201", addressOf(0x20, 0x01, 0x0d, 0xb8, 0, 1)],
      ["192.0.2.1", addressOf()],
      ["", new Uint8Array()],
    ];
    for (const [text, bytes] of [...peers, ...peers.toReversed()]) {
      const response = { getRemoteAddress: () => bytes.buffer } as unknown as HttpResponse;
      expect(read(response)).toBe(text);
    }
  });
});
