import { Buffer } from "node:buffer";
import type { HeaderList } from "../domain/event.ts";
import { parseBearer } from "./bearer.ts";
import { parseBasic } from "./basic.ts";
import { KeyedHash, makeScratch } from "./keyed-hash.ts";
import type { HmacAlgorithm } from "./keyed-hash.ts";
import { parseHmac } from "./hmac-settings.ts";
import type { HmacSettings } from "./hmac-settings.ts";
import { readKey } from "./key-material.ts";
import { effectiveConfig } from "./presets.ts";
import { rawPathOf } from "./signed-payload.ts";
import { readBodyTimestamp } from "./timestamp.ts";
import { parseTwilio, signTwilio } from "./twilio.ts";
import { twilioFormText } from "./twilio-form.ts";
import type { VerificationSettings } from "../domain/verification.ts";

export interface SampleToSign extends VerificationSettings {
  readonly body: Uint8Array;
  readonly nowMs: number;
  /** The public URL that the request will be sent to, including its query. */
  readonly url: string;
  readonly httpMethod: string;
  /** The value of `id_header`, where one is configured; "test" when left out. */
  readonly id?: string;
}

/**
 * Returns the headers that make a request with this body genuine under the endpoint's own secret and configuration.
 * There are none where the relay cannot sign (no secret, settings missing, jwt, ip_allowlist): the request then goes
 * out unsigned, and ingest reports what is missing.
 */
export function signSample(sample: SampleToSign): HeaderList {
  const { method, secret } = sample;
  if (secret === null || secret === "") return [];
  const config = effectiveConfig(sample);
  switch (method) {
    case "hmac_sha256":
    case "hmac_sha1": {
      const parsed = parseHmac(config);
      const algorithm = method === "hmac_sha256" ? "sha256" : "sha1";
      return parsed.ok ? signHmac(sample, algorithm, parsed.settings) : [];
    }
    case "bearer_token": {
      const parsed = parseBearer(config);
      if (!parsed.ok) return [];
      const { header, scheme } = parsed.settings;
      return [[header, scheme === "" ? secret : `${scheme} ${secret}`]];
    }
    case "basic_auth": {
      const parsed = parseBasic(config);
      if (!parsed.ok) return [];
      const pair = Buffer.from(`${parsed.settings.username}:${secret}`, "utf8");
      return [["Authorization", `Basic ${pair.toString("base64")}`]];
    }
    case "twilio_signature": {
      const parsed = parseTwilio(config);
      if (!parsed.ok) return [];
      const url = parsed.settings.url ?? sample.url;
      const digest = signTwilio(secret, url, twilioFormText(sample.body) ?? "", "sha1");
      return [[parsed.settings.header, Buffer.from(digest).toString("base64")]];
    }
    case "jwt":
    case "ip_allowlist":
    case "none":
      return [];
    default:
      return method satisfies never;
  }
}

const DEFAULT_ID = "test";
/** The one of Shopify's two accepted header names that receivers of its webhooks look for. */
const SHOPIFY_HEADER = "X-Shopify-Hmac-Sha256";

function signHmac(
  sample: SampleToSign,
  algorithm: HmacAlgorithm,
  settings: HmacSettings,
): HeaderList {
  const key = readKey(sample.secret, settings.secretEncoding, settings.secretPrefix);
  const header = settings.headers.find((name) => name === SHOPIFY_HEADER) ?? settings.headers[0];
  if (!key.ok || header === undefined) return [];
  const timestamp = timestampOf(sample, settings);
  const id = sample.id ?? DEFAULT_ID;
  const digest = new KeyedHash(algorithm, key.key).digest(
    settings.template,
    {
      body: sample.body,
      timestamp,
      id: settings.idHeader === null ? "" : id,
      method: sample.httpMethod,
      path: rawPathOf(sample.url),
    },
    makeScratch(),
  );
  const signature = settings.prefix + digest.toString(settings.encoding);
  const pairs =
    settings.timestampKey === null
      ? [`${settings.signatureKey}=${signature}`]
      : [`${settings.timestampKey}=${timestamp}`, `${settings.signatureKey}=${signature}`];
  const isKeyValue = settings.headerFormat === "key_value";
  const headers: [string, string][] = [
    [header, isKeyValue ? pairs.join(settings.listSeparator) : signature],
  ];
  if (settings.timestampHeader !== null) headers.push([settings.timestampHeader, timestamp]);
  // Where the id is not signed, `id_header` may name the signature's own header.
  if (settings.idHeader !== null && settings.idHeader.toLowerCase() !== header.toLowerCase())
    headers.push([settings.idHeader, id]);
  return headers;
}

/** Returns the current time, or the body's own timestamp where no header carries one. */
function timestampOf(sample: SampleToSign, settings: HmacSettings): string {
  const now = settings.timestampUnit === "s" ? Math.floor(sample.nowMs / 1000) : sample.nowMs;
  const isInBodyOnly = settings.timestampKey === null && settings.timestampHeader === null;
  if (settings.timestampBodyField !== null && isInBodyOnly) {
    const field = readBodyTimestamp(sample.body, settings.timestampBodyField, true);
    if (field.kind === "found") return field.text;
  }
  return String(now);
}
