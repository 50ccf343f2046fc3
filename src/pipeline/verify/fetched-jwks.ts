import type { VerificationRequest } from "../../domain/verification.ts";

type Config = VerificationRequest["config"];

/** Returns the URL that a request's keys must be fetched from; null when nothing needs to be fetched. */
export function jwksUrlOf(request: VerificationRequest): string | null {
  if (request.method !== "jwt" || !Object.hasOwn(request.config, "jwks_url")) return null;
  const url = request.config["jwks_url"];
  const isAlone =
    !Object.hasOwn(request.config, "jwks") && !Object.hasOwn(request.config, "public_key");
  return typeof url === "string" && url !== "" && isAlone ? url : null;
}

/** Returns the request with `jwks`, the fetched keys, in the place of its `jwks_url`. */
export type ReplaceJwksUrl = (request: VerificationRequest, jwks: object) => VerificationRequest;

/** Makes the replacement. The same configuration and keys give the same object again, so that the imported keys are kept with it. */
export function makeReplaceJwksUrl(): ReplaceJwksUrl {
  const known = new WeakMap<object, { readonly jwks: object; readonly config: Config }>();
  return (request, jwks) => {
    const entry = known.get(request.config);
    if (entry !== undefined && entry.jwks === jwks) return { ...request, config: entry.config };
    const { jwks_url: _url, ...rest } = request.config;
    const config: Config = { ...rest, jwks };
    known.set(request.config, { jwks, config });
    return { ...request, config };
  };
}
