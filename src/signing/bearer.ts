import { Buffer } from "node:buffer";
import type { VerificationRequest, VerificationResult } from "../domain/verification.ts";
import { readAuthorization } from "./authorization.ts";
import { equalCredentials } from "./constant-time.ts";
import { missingSecret } from "./key-material.ts";
import { defineScheme } from "./scheme.ts";
import { readSettings } from "./settings-reader.ts";
import type { Config, Parsed } from "./settings-reader.ts";
import { GENUINE, refuse } from "./verdict.ts";

export interface BearerSettings {
  readonly header: string;
  /** Empty when the header's value is the bare token. */
  readonly scheme: string;
}

/** Bearer tokens (RFC 6750 §2.1) and, with another header and scheme "", plain API keys. */
export const bearerScheme = defineScheme({ parse: parseBearer, verify: verifyBearer });

export function parseBearer(config: Config): Parsed<BearerSettings> {
  return readSettings(config, ["header", "scheme"], (reader) => ({
    header: reader.headerName("header", "Authorization"),
    scheme: reader.text("scheme", "Bearer"),
  }));
}

function verifyBearer(request: VerificationRequest, settings: BearerSettings): VerificationResult {
  const { secret } = request;
  if (secret === null || secret === "") return missingSecret();
  const found = readAuthorization(request.headers, settings.header, settings.scheme);
  if (!found.ok) return found.refusal;
  if (isSecret(found.credentials, secret)) return GENUINE;
  return refuse(
    "credentials_mismatch",
    `The token in ${settings.header} is not the endpoint's secret: give the sender the secret of this endpoint, or set the endpoint's secret to the sender's token.`,
  );
}

/**
 * Compares in constant time. Header bytes beyond ASCII arrive as UTF-8 text or as one character per byte, depending on
 * the HTTP parser, so both readings are compared.
 */
function isSecret(presented: string, secret: string): boolean {
  const expected = Buffer.from(secret, "utf8");
  const asText = equalCredentials(Buffer.from(presented, "utf8"), expected);
  const asBytes = equalCredentials(Buffer.from(presented, "latin1"), expected);
  return asText || (asBytes && isByteText(presented));
}

function isByteText(text: string): boolean {
  for (let index = 0; index < text.length; index += 1) {
    if (text.charCodeAt(index) > 0xff) return false;
  }
  return true;
}
