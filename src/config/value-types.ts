import { z } from "zod";
import { BASE_URL_FORM, isBaseUrl } from "../domain/base-url.ts";
import { parseCidrs } from "../domain/ip.ts";
import { parseUrl } from "../domain/parse-url.ts";

export const ROLES = ["api", "ingest", "delivery"] as const;
export type Role = (typeof ROLES)[number];

/** Returns whether white space surrounds the text, as where it comes from a file. */
export function isPadded(text: string): boolean {
  return text !== text.trim();
}

export const integerText = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,15}$/, `must be a whole number from ${min} to ${max}`)
    .transform(Number)
    .refine(
      (value) => value >= min && value <= max,
      `must be a whole number from ${min} to ${max}`,
    );

export const booleanText = z
  .enum(["true", "false"], { error: "must be true or false" })
  .transform((text) => text === "true");

export const oneOf = <const Value extends string>(values: readonly Value[]) =>
  z.enum(values, { error: `must be one of ${values.join(", ")}` });

const commaList = z.string().transform((text) =>
  text
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== ""),
);

export const brokerList = commaList.refine(
  (brokers) => brokers.length > 0 && brokers.every((broker) => isHostAndPort(broker)),
  "must be host:port,host:port, with names in place of IPv6 addresses",
);

function isHostAndPort(text: string): boolean {
  return isPort(/^[^\s:/]+:(\d+)$/.exec(text)?.[1] ?? "");
}

export function isPort(text: string): boolean {
  return /^\d{1,5}$/.test(text) && Number(text) >= 1 && Number(text) <= 65_535;
}

export const roleList = commaList.pipe(
  z
    .array(z.enum(ROLES, { error: `must be a comma-separated list of ${ROLES.join(", ")}` }))
    .min(1, `must name at least one of ${ROLES.join(", ")}`),
);

export const cidrList = commaList.refine(
  (cidrs) => isCidrList(cidrs),
  "must be CIDRs such as 127.0.0.0/8,::1/128",
);

function isCidrList(cidrs: readonly string[]): boolean {
  try {
    parseCidrs(cidrs);
    return true;
  } catch {
    return false;
  }
}

/** URL of ClickHouse's HTTP interface, without a query: the relay itself sets the settings. */
export const clickHouseUrl = z
  .string()
  .refine(
    (text) =>
      /^https?:\/\/(?:[^\s/?#@\\]*@)?[^\s/?#@\\]+(?:\/[^\s/?#\\]*)?$/i.test(text) &&
      parseUrl(text) !== null &&
      isPercentEncoded(text),
    "must be http(s)://user:password@host:8123/database, user and password percent-encoded (/ is %2F, @ is %40, # is %23, ? is %3F, % is %25), without query",
  );

/** Returns whether every % starts an escape and the escapes are UTF-8. */
export function isPercentEncoded(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/** URL to append a path to. */
export const baseUrl = z.string().refine(isBaseUrl, `must be ${BASE_URL_FORM}`);

export const hostName = z
  .string()
  .regex(/^[^\s/]+$/, "must be an IP address or a host name of this machine");

export const directory = z
  .string()
  .regex(/^(?!\w+:\/\/)/, "must be a directory, not a URL")
  .regex(
    /^(?!~|(["']).*\1$)/s,
    "must be written out, without ~ and quotes: no shell takes them away in a file of variables",
  )
  .regex(/^(?!\s)\P{Cc}*(?<!\s)$/u, "must not have line breaks or other control characters");

/** User name or password that is used as it stands. */
export const credential = z.string().regex(/^[^\r\n]+$/, "must not have line breaks");

export const organizationName = z
  .string()
  .regex(/^\P{Cc}{1,200}$/u, "must be 1 to 200 characters, without control characters")
  // `acme ` and `acme` would be two organizations that look the same.
  .refine((text) => !isPadded(text), "must not begin or end with white space");

export const base64Key = z
  .string()
  .refine(
    (text) => /^[A-Za-z0-9+/]{43}=$/.test(text),
    "must be 32 bytes in base64 (make one with: openssl rand -base64 32)",
  );
