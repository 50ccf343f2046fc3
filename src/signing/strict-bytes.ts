import { Buffer } from "node:buffer";

export const BYTE_ENCODINGS = ["hex", "base64", "base64url"] as const;
export type ByteEncoding = (typeof BYTE_ENCODINGS)[number];

const HEX = /^(?:[0-9a-fA-F]{2})*$/;
const BASE64_TEXT = /^[A-Za-z0-9+/]*={0,2}$/;
const BASE64URL_TEXT = /^[A-Za-z0-9_-]*={0,2}$/;

/**
 * Decodes what a sender wrote, or returns null. Node's own decoders stop silently at the first invalid character and
 * ignore surplus bits, so many texts mean the same bytes. Here only the case of hex and the padding of base64url may
 * vary (RFC 4648 §3.2, §3.5).
 */
export function decodeStrict(text: string, encoding: ByteEncoding): Buffer | null {
  switch (encoding) {
    case "hex":
      return HEX.test(text) ? Buffer.from(text, "hex") : null;
    case "base64": {
      if (text.length % 4 !== 0 || !BASE64_TEXT.test(text)) return null;
      const bytes = Buffer.from(text, "base64");
      return bytes.toString("base64") === text ? bytes : null;
    }
    case "base64url": {
      if (!BASE64URL_TEXT.test(text)) return null;
      const bytes = Buffer.from(text, "base64url");
      const canonical = bytes.toString("base64url");
      if (canonical === text) return bytes;
      return text === canonical.padEnd(Math.ceil(canonical.length / 4) * 4, "=") ? bytes : null;
    }
    default:
      return encoding satisfies never;
  }
}

const DIGITS: Readonly<Record<ByteEncoding, RegExp>> = {
  hex: /^[0-9a-fA-F]+$/,
  base64: /^[A-Za-z0-9+/=]+$/,
  base64url: /^[A-Za-z0-9_=-]+$/,
};

/** Returns whether a text can occur anywhere in text of this encoding, padding included. */
export function mayStandIn(encoding: ByteEncoding, text: string): boolean {
  return DIGITS[encoding].test(text);
}

export const SECRET_ENCODINGS = ["utf8", "hex", "base64", "base64url"] as const;
export type SecretEncoding = (typeof SECRET_ENCODINGS)[number];

/**
 * Returns the key bytes of a secret, or null when its text is not of that encoding. An attacker has no say in a secret,
 * so padding and surplus bits may vary, as they do between providers and their libraries.
 */
export function decodeSecret(secret: string, encoding: SecretEncoding): Buffer | null {
  switch (encoding) {
    case "utf8":
      return Buffer.from(secret, "utf8");
    case "hex":
      return HEX.test(secret) ? Buffer.from(secret, "hex") : null;
    case "base64":
      return BASE64_TEXT.test(secret) && isWholeBytes(secret)
        ? Buffer.from(secret, "base64")
        : null;
    case "base64url":
      return BASE64URL_TEXT.test(secret) && isWholeBytes(secret)
        ? Buffer.from(secret, "base64url")
        : null;
    default:
      return encoding satisfies never;
  }
}

/** Returns false when six bits are left over, which make no byte: the text was cut off. */
function isWholeBytes(base64: string): boolean {
  return base64.replace(/=+$/, "").length % 4 !== 1;
}
