import { ASYMMETRIC_ALGORITHMS, HMAC_ALGORITHMS } from "./jwt-algorithms.ts";
import type { JwtAlgorithm } from "./jwt-algorithms.ts";
import { importJwks, importPem } from "./jwt-keys.ts";
import type { ImportedKeys, VerificationKey } from "./jwt-keys.ts";
import { readSettings } from "./settings-reader.ts";
import type { Config, Parsed, SettingsReader } from "./settings-reader.ts";
import { BYTE_ENCODINGS, SECRET_ENCODINGS } from "./strict-bytes.ts";
import type { ByteEncoding, SecretEncoding } from "./strict-bytes.ts";

type JwtKeySource =
  | { readonly kind: "secret" }
  | { readonly kind: "keys"; readonly keys: readonly VerificationKey[] }
  /** Keys to be fetched: the verifier puts them in place of this before it verifies. */
  | { readonly kind: "url"; readonly url: string };

export interface JwtSettings {
  readonly header: string;
  readonly scheme: string;
  readonly algorithms: readonly JwtAlgorithm[];
  readonly keySource: JwtKeySource;
  readonly secretEncoding: SecretEncoding;
  /** Any one of them will do; null when not checked. */
  readonly issuers: readonly string[] | null;
  readonly audiences: readonly string[] | null;
  readonly clockSkewSeconds: number;
  readonly maxAgeSeconds: number | null;
  readonly bodyHashClaim: string | null;
  readonly hashAlgorithm: "sha256" | "sha384" | "sha512";
  readonly hashEncoding: ByteEncoding;
  readonly urlHashClaim: string | null;
}

const KEYS = [
  "header",
  "scheme",
  "algorithms",
  "public_key",
  "jwks",
  "jwks_url",
  "secret_encoding",
  "issuer",
  "audience",
  "clock_skew_seconds",
  "max_age_seconds",
  "body_hash_claim",
  "body_hash_algorithm",
  "body_hash_encoding",
  "url_hash_claim",
] as const;

const MAX_SECONDS = 100_000_000_000;

/** Reads the settings of `jwt`, with defaults filled in and keys imported. */
export function parseJwt(config: Config): Parsed<JwtSettings> {
  return readSettings(config, KEYS, (reader): JwtSettings => {
    const algorithms = readAlgorithms(reader);
    return {
      header: reader.headerName("header", "Authorization"),
      scheme: reader.text("scheme", "Bearer"),
      algorithms,
      keySource: readKeySource(reader, algorithms),
      secretEncoding: reader.choice("secret_encoding", SECRET_ENCODINGS, "utf8"),
      issuers: readTexts(reader, "issuer"),
      audiences: readTexts(reader, "audience"),
      clockSkewSeconds: reader.integer("clock_skew_seconds", 60, MAX_SECONDS),
      maxAgeSeconds: reader.has("max_age_seconds")
        ? reader.integer("max_age_seconds", 0, MAX_SECONDS)
        : null,
      bodyHashClaim: reader.optionalText("body_hash_claim"),
      hashAlgorithm: reader.choice("body_hash_algorithm", ["sha256", "sha384", "sha512"], "sha256"),
      hashEncoding: reader.choice("body_hash_encoding", BYTE_ENCODINGS, "hex"),
      urlHashClaim: reader.optionalText("url_hash_claim"),
    };
  });
}

function readAlgorithms(reader: SettingsReader): readonly JwtAlgorithm[] {
  const known: readonly JwtAlgorithm[] = [...HMAC_ALGORITHMS, ...ASYMMETRIC_ALGORITHMS];
  const value = reader.raw("algorithms");
  if (value === undefined) {
    reader.require("algorithms", `list those the sender signs with, of ${known.join(", ")}`);
    return [];
  }
  const names: readonly unknown[] = Array.isArray(value) ? value : [];
  const algorithms = known.filter((algorithm) => names.includes(algorithm));
  if (names.length === 0 || algorithms.length !== new Set(names).size) {
    reader.fail("algorithms", `must be a list of one or more of ${known.join(", ")}`);
  }
  return algorithms;
}

function readKeySource(reader: SettingsReader, algorithms: readonly JwtAlgorithm[]): JwtKeySource {
  const given = ["public_key", "jwks", "jwks_url"].filter((key) => reader.has(key));
  const [first, second] = given;
  if (second !== undefined) reader.fail(second, `give only one of ${given.join(" and ")}`);
  switch (first) {
    case undefined:
      if (algorithms.some(isAsymmetric)) {
        reader.require("public_key", `${algorithms.join(", ")} needs it, or jwks or jwks_url`);
      }
      return { kind: "secret" };
    case "public_key":
      return readKeys(reader, first, importPem(reader.text(first, "")));
    case "jwks":
      return readKeys(reader, first, importJwks(reader.raw(first)));
    default: {
      const url = reader.text("jwks_url", "");
      if (!/^https?:\/\/[^/?#\s]\S*$/i.test(url)) {
        reader.fail("jwks_url", "must be an https URL");
      }
      return { kind: "url", url };
    }
  }
}

function readKeys(reader: SettingsReader, key: string, imported: ImportedKeys): JwtKeySource {
  if (!imported.ok) reader.fail(key, imported.message);
  return { kind: "keys", keys: imported.ok ? imported.keys : [] };
}

function isAsymmetric(algorithm: JwtAlgorithm): boolean {
  return (ASYMMETRIC_ALGORITHMS as readonly string[]).includes(algorithm);
}

function readTexts(reader: SettingsReader, key: string): readonly string[] | null {
  const value = reader.raw(key);
  if (value === undefined) return null;
  const texts: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (texts.length > 0 && texts.every((text) => typeof text === "string" && text !== "")) {
    return texts as readonly string[];
  }
  reader.fail(key, "must be a text, or a list of texts");
  return null;
}
