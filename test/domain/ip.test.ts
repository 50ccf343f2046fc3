import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isPublicAddress, matchesCidr, parseCidrs } from "../../src/domain/ip.ts";

describe("isPublicAddress", () => {
  test.each([
    "0.0.0.0",
    "10.0.0.1",
    "100.64.0.1",
    "100.127.255.255",
    "127.0.0.1",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "192.31.196.1",
    "192.52.193.1",
    "192.88.99.1",
    "192.168.1.1",
    "192.175.48.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:10.0.0.1",
    "::ffff:7f00:1",
    "::127.0.0.1",
    // IPv4-compatible (RFC 4291 §2.5.5.1), not IPv4-mapped: not an address of the IPv4 internet.
    "::8.8.8.8",
    "64:ff9b::808:808",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:1ff:ffff::1",
    "2001:db8::1",
    "2002::1",
    "2620:4f:8000::1",
    "2620:4f:8000:ffff::1",
    "3fff::1",
    "3fff:fff::1",
    "4000::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
  ])("%s is not public", (address) => {
    expect(isPublicAddress(address)).toBe(false);
  });

  test.each([
    "1.1.1.1",
    "8.8.8.8",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "168.63.129.15",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.1",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "::ffff:8.8.8.8",
    "2001:200::1",
    "2001:4860:4860::8888",
    "2003::1",
    "2a00:1450::1",
    "3ffe:ffff::1",
    "3fff:1000::1",
    "2620:4f:8001::1",
    "2620:4f:7fff::1",
  ])("%s is public", (address) => {
    expect(isPublicAddress(address)).toBe(true);
  });

  test.each([
    "",
    "localhost",
    "010.0.0.1",
    "8.8.8",
    "0x08080808",
    "134744072",
    "8.8.8.8.8",
    "fe80::1%eth0",
    "2a00::1%1",
    "[2a00::1]",
    " 8.8.8.8",
    "8.8.8.8/32",
    "::ffff:010.8.8.8",
    "::ffff:0x8.8.8.8",
    "2a00::08.8.8.8",
    "2a00::8.8.8",
    "2a00::8.8.8.8:1",
  ])("%j is no address, hence not public", (text) => {
    expect(isPublicAddress(text)).toBe(false);
  });

  test("an IPv4 address and its mapped form always get the same verdict", () => {
    fc.assert(
      fc.property(fc.ipV4(), (address) => {
        expect(isPublicAddress(`::ffff:${address}`)).toBe(isPublicAddress(address));
      }),
    );
  });
});

describe("CIDR lists", () => {
  test.each([
    ["127.0.0.0/8", "127.9.9.9", true],
    ["127.0.0.0/8", "128.0.0.1", false],
    ["127.0.0.1", "127.0.0.1", true],
    ["127.0.0.1", "127.0.0.2", false],
    ["10.1.2.3/8", "10.200.0.1", true],
    ["0.0.0.0/0", "8.8.8.8", true],
    ["0.0.0.0/0", "::1", false],
    ["::1/128", "::1", true],
    ["::1", "0:0:0:0:0:0:0:1", true],
    ["fd00::/8", "fdff::1", true],
    ["10.0.0.0/8", "::ffff:10.1.1.1", true],
    ["::ffff:10.0.0.0/104", "10.1.1.1", true],
    ["::ffff:10.0.0.0/104", "11.1.1.1", false],
    ["10.0.0.0/8", "::10.1.1.1", false],
    ["::10.0.0.0/104", "10.1.1.1", false],
    ["::10.0.0.0/104", "::a01:101", true],
    ["2001:db8::10.1.1.1", "2001:db8::a01:101", true],
    ["10.0.0.0/8", "not an address", false],
  ])("%s holds %s: %s", (cidr, address, expected) => {
    expect(matchesCidr(address, parseCidrs([cidr]))).toBe(expected);
  });

  test.each([
    "",
    "x",
    "10.0.0.0/33",
    "10.0.0.0/",
    "10.0.0.0/-1",
    "10.0.0.0/08",
    "10.0.0/8",
    "::/129",
    "::ffff:10.0.0.0/24",
    "010.0.0.1",
    "10.0.0.0/8/8",
    "fe80::%1/10",
    "::ffff:010.0.0.0/104",
  ])("%j is refused by name", (text) => {
    expect(() => parseCidrs(["10.0.0.0/8", text])).toThrow(`"${text}" is neither`);
  });

  test("an empty list matches nothing", () => {
    expect(matchesCidr("127.0.0.1", parseCidrs([]))).toBe(false);
  });
});
