import { isHeaderName, readSettings } from "./settings-reader.ts";
import type { Config, Parsed, SettingsReader } from "./settings-reader.ts";
import { parseTemplate, templateNames } from "./signed-payload.ts";
import type { TemplatePart } from "./signed-payload.ts";
import { BYTE_ENCODINGS, SECRET_ENCODINGS } from "./strict-bytes.ts";
import type { ByteEncoding, SecretEncoding } from "./strict-bytes.ts";

export interface HmacSettings {
  /** In order of preference: the first one present counts. */
  readonly headers: readonly string[];
  readonly prefix: string;
  readonly encoding: ByteEncoding;
  readonly secretEncoding: SecretEncoding;
  readonly secretPrefix: string;
  readonly headerFormat: "plain" | "key_value" | "list";
  readonly timestampKey: string | null;
  readonly signatureKey: string;
  readonly listSeparator: string;
  readonly template: readonly TemplatePart[];
  readonly timestampHeader: string | null;
  readonly timestampBodyField: string | null;
  readonly timestampUnit: "s" | "ms";
  readonly timestampOptional: boolean;
  readonly idHeader: string | null;
  /** With 0, timestamps are read but not compared with the clock. */
  readonly toleranceSeconds: number;
  readonly allowEmptyBody: boolean;
}

const KEYS = [
  "header",
  "prefix",
  "encoding",
  "secret_encoding",
  "secret_prefix",
  "header_format",
  "timestamp_key",
  "signature_key",
  "list_separator",
  "signed_payload",
  "timestamp_header",
  "timestamp_body_field",
  "timestamp_unit",
  "timestamp_optional",
  "id_header",
  "tolerance_seconds",
  "allow_empty_body",
] as const;

const DEFAULT_TOLERANCE_SECONDS = 300;
/** What other libraries take to mean no limit: the largest 64-bit integer. */
const MAX_TOLERANCE_SECONDS = 2 ** 63;

/** Reads the settings of `hmac_sha256` and `hmac_sha1`, with defaults filled in. */
export function parseHmac(config: Config): Parsed<HmacSettings> {
  return readSettings(config, KEYS, (reader): HmacSettings => {
    const prefix = reader.text("prefix", "");
    const headerFormat = reader.choice("header_format", ["plain", "key_value", "list"], "plain");
    const settings: HmacSettings = {
      headers: readHeaders(reader),
      prefix,
      encoding: reader.choice("encoding", BYTE_ENCODINGS, "hex"),
      secretEncoding: reader.choice("secret_encoding", SECRET_ENCODINGS, "utf8"),
      secretPrefix: reader.text("secret_prefix", ""),
      headerFormat,
      timestampKey: reader.optionalText("timestamp_key"),
      signatureKey: reader.optionalText("signature_key") ?? "",
      // With a comma in the prefix ("v1,"), a comma cannot separate the entries.
      listSeparator:
        reader.optionalText("list_separator") ??
        (headerFormat === "list" && prefix.includes(",") ? " " : ","),
      template: readTemplate(reader),
      timestampHeader: reader.headerName("timestamp_header", null),
      timestampBodyField: reader.optionalText("timestamp_body_field"),
      timestampUnit: reader.choice("timestamp_unit", ["s", "ms"], "s"),
      timestampOptional: reader.flag("timestamp_optional", false),
      idHeader: reader.headerName("id_header", null),
      toleranceSeconds: reader.integer(
        "tolerance_seconds",
        DEFAULT_TOLERANCE_SECONDS,
        MAX_TOLERANCE_SECONDS,
      ),
      allowEmptyBody: reader.flag("allow_empty_body", true),
    };
    checkTogether(reader, settings);
    return settings;
  });
}

function readHeaders(reader: SettingsReader): readonly string[] {
  const value = reader.raw("header");
  if (value === undefined) {
    reader.require("header", "set it to the name of the header that carries the signature");
    return [];
  }
  const names: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (names.length > 0 && names.length <= 8 && names.every(isHeaderName)) return names;
  reader.fail("header", "must be the name of an HTTP header, or a list of one to eight names");
  return [];
}

function readTemplate(reader: SettingsReader): readonly TemplatePart[] {
  const template = parseTemplate(reader.text("signed_payload", "{body}"));
  if (template !== null) return template;
  const message =
    "must contain {body}, and no other than {timestamp}, {id}, {method} and {path}, each of them once";
  reader.fail("signed_payload", message);
  return [];
}

/** Checks settings that only make sense together: with one missing, less would be verified than the author believes. */
function checkTogether(reader: SettingsReader, settings: HmacSettings): void {
  const isKeyValue = settings.headerFormat === "key_value";
  if (isKeyValue && settings.signatureKey === "") {
    reader.require("signature_key", "set it to the key before the signature, such as v1");
  }
  for (const key of ["timestamp_key", "signature_key"]) {
    if (!isKeyValue && reader.has(key)) {
      reader.fail(key, "is used with header_format key_value only");
    }
  }
  if (templateNames(settings.template, "timestamp") && !isTimestamped(settings)) {
    const message = "signed_payload uses {timestamp}: set it, or timestamp_key";
    reader.require("timestamp_header", message);
  }
  if (templateNames(settings.template, "id") && settings.idHeader === null) {
    reader.require("id_header", "signed_payload uses {id}: set it to the header with the id");
  }
}

export function isTimestamped(settings: HmacSettings): boolean {
  return (
    settings.timestampKey !== null ||
    settings.timestampHeader !== null ||
    settings.timestampBodyField !== null
  );
}
