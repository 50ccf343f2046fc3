import { Buffer } from "node:buffer";
import type { VerificationRequest, VerificationResult } from "../domain/verification.ts";
import { readAuthorization } from "./authorization.ts";
import { equalCredentials } from "./constant-time.ts";
import { missingSecret } from "./key-material.ts";
import { defineScheme } from "./scheme.ts";
import { readSettings } from "./settings-reader.ts";
import type { Config, Parsed } from "./settings-reader.ts";
import { decodeStrict } from "./strict-bytes.ts";
import { GENUINE, refuse } from "./verdict.ts";

export interface BasicSettings {
  readonly username: string;
}

/** HTTP Basic authentication (RFC 7617), charset UTF-8; the endpoint's secret is the password. */
export const basicScheme = defineScheme({ parse: parseBasic, verify: verifyBasic });

export function parseBasic(config: Config): Parsed<BasicSettings> {
  return readSettings(config, ["username"], (reader) => {
    if (!reader.has("username")) {
      reader.require("username", "set it to the user name the sender logs in with");
    }
    const username = reader.text("username", "");
    if (username.includes(":")) reader.fail("username", "must not contain a colon (RFC 7617)");
    return { username };
  });
}

function verifyBasic(request: VerificationRequest, settings: BasicSettings): VerificationResult {
  const { secret } = request;
  if (secret === null || secret === "") return missingSecret();
  const found = readAuthorization(request.headers, "Authorization", "Basic");
  if (!found.ok) return found.refusal;
  const pair = decodeStrict(found.credentials, "base64");
  const colon = pair === null ? -1 : pair.indexOf(0x3a);
  if (pair === null || colon < 0) {
    return refuse(
      "malformed_authorization",
      'Authorization must have the form "Basic <base64 of username:password>".',
    );
  }
  // Both halves are always compared, so that timing does not reveal which one was right.
  const isUser = equalCredentials(pair.subarray(0, colon), Buffer.from(settings.username, "utf8"));
  const isPassword = equalCredentials(pair.subarray(colon + 1), Buffer.from(secret, "utf8"));
  if (isUser && isPassword) return GENUINE;
  return refuse(
    "credentials_mismatch",
    "User name or password is wrong: compare verification_config.username and the endpoint's secret with what the sender is configured to send.",
  );
}
