import type { VerificationMethod } from "../domain/enums.ts";
import { basicScheme } from "./basic.ts";
import { bearerScheme } from "./bearer.ts";
import { hmacSha1Scheme, hmacSha256Scheme } from "./hmac.ts";
import { ipAllowlistScheme } from "./ip-allowlist.ts";
import { jwtScheme } from "./jwt.ts";
import { noneScheme } from "./none.ts";
import type { Scheme } from "./scheme.ts";
import { twilioScheme } from "./twilio.ts";

/** The scheme of every verification method; a method without one does not compile. */
export const SCHEMES: Readonly<Record<VerificationMethod, Scheme>> = {
  hmac_sha256: hmacSha256Scheme,
  hmac_sha1: hmacSha1Scheme,
  twilio_signature: twilioScheme,
  bearer_token: bearerScheme,
  basic_auth: basicScheme,
  jwt: jwtScheme,
  ip_allowlist: ipAllowlistScheme,
  none: noneScheme,
};
