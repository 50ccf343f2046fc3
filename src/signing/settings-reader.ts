/** `verification_config` as stored, unchecked until a scheme has read it. */
export type Config = Readonly<Record<string, unknown>>;

/**
 * A problem with one setting. `field` is named as in the API (`verification_config.allowed_ips`); `missing` means
 * required and absent.
 */
export interface SettingProblem {
  readonly field: string;
  readonly message: string;
  readonly missing: boolean;
}

export type Parsed<Settings> =
  | { readonly ok: true; readonly settings: Settings }
  | ({ readonly ok: false } & SettingProblem);

const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}$/;

/**
 * Reads one scheme's settings from a configuration and keeps the first problem it meets. The same reader serves writes
 * (400 with the field's name) and ingest (fails closed with the setting's name).
 */
export interface SettingsReader {
  has(key: string): boolean;
  text(key: string, fallback: string): string;
  optionalText(key: string): string | null;
  flag(key: string, fallback: boolean): boolean;
  integer(key: string, fallback: number, max: number): number;
  choice<const T extends string>(key: string, choices: readonly T[], fallback: T): T;
  headerName<Fallback>(key: string, fallback: Fallback): string | Fallback;
  raw(key: string): unknown;
  fail(key: string, message: string): void;
  require(key: string, message: string): void;
}

/** Runs `read`; its result counts only when no setting was wrong. */
export function readSettings<Settings>(
  config: Config,
  knownKeys: readonly string[],
  read: (reader: SettingsReader) => Settings,
): Parsed<Settings> {
  let problem: SettingProblem | null = null;
  const note = (key: string, message: string, missing: boolean): void => {
    problem ??= { field: `verification_config.${key}`, message, missing };
  };
  for (const key of Object.keys(config)) {
    if (knownKeys.includes(key)) continue;
    const takes = knownKeys.length === 0 ? "takes no settings" : `takes ${knownKeys.join(", ")}`;
    note(key.slice(0, 64), `unknown setting; this method ${takes}`, false);
  }
  const own = (key: string): unknown => (Object.hasOwn(config, key) ? config[key] : undefined);
  const reader: SettingsReader = {
    has: (key) => own(key) !== undefined,
    raw: own,
    text(key, fallback) {
      const value = own(key);
      if (value === undefined) return fallback;
      if (typeof value === "string" && value.length <= 8192) return value;
      note(key, "must be a text of at most 8192 characters", false);
      return fallback;
    },
    optionalText(key) {
      if (own(key) === undefined) return null;
      const value = reader.text(key, "");
      if (value === "") note(key, "must be a text that is not empty", false);
      return value;
    },
    flag(key, fallback) {
      const value = own(key);
      if (value === undefined) return fallback;
      if (typeof value === "boolean") return value;
      note(key, "must be true or false", false);
      return fallback;
    },
    integer(key, fallback, max) {
      const value = own(key);
      if (value === undefined) return fallback;
      if (Number.isInteger(value) && (value as number) >= 0 && (value as number) <= max) {
        return value as number;
      }
      const range = Number.isSafeInteger(max) ? `from 0 to ${max}` : "that is not negative";
      note(key, `must be a whole number ${range}`, false);
      return fallback;
    },
    choice(key, choices, fallback) {
      const value = own(key);
      if (value === undefined) return fallback;
      const known = choices.find((choice) => choice === value);
      if (known === undefined) note(key, `must be one of ${choices.join(", ")}`, false);
      return known ?? fallback;
    },
    headerName(key, fallback) {
      const value = own(key);
      if (value === undefined) return fallback;
      if (isHeaderName(value)) return value;
      note(key, "must be the name of an HTTP header", false);
      return fallback;
    },
    fail: (key, message) => note(key, message, false),
    require: (key, message) => note(key, message, true),
  };
  const settings = read(reader);
  const found = problem as SettingProblem | null;
  return found === null ? { ok: true, settings } : { ok: false, ...found };
}

export function isHeaderName(value: unknown): value is string {
  return typeof value === "string" && HEADER_NAME.test(value);
}
