import { Buffer } from "node:buffer";
import type { VerificationMethod } from "../domain/enums.ts";
import { parseHmac } from "./hmac-settings.ts";
import { effectiveConfig } from "./presets.ts";
import type { VerificationSettings } from "../domain/verification.ts";

/** Returns why an endpoint cannot be sent a test webhook, or null when it can. */
export function whyNotTestable(method: VerificationMethod): string | null {
  const instead = "send a real event from the provider instead";
  switch (method) {
    case "ip_allowlist":
      return `ip_allowlist endpoints cannot be tested: the relay's own address is not the sender's; ${instead}.`;
    case "jwt":
      return `jwt endpoints cannot be tested: only the holder of the key can make a token; ${instead}.`;
    case "twilio_signature":
      return `twilio_signature endpoints cannot be tested: Twilio signs the URL and its own form parameters; ${instead}.`;
    case "hmac_sha256":
    case "hmac_sha1":
    case "bearer_token":
    case "basic_auth":
    case "none":
      return null;
    default:
      return method satisfies never;
  }
}

/** Makes the JSON body of a test webhook, with the time where the endpoint's configuration looks for one in the body. */
export function makeTestBody(
  settings: VerificationSettings,
  id: string,
  nowMs: number,
): Uint8Array {
  const body: Record<string, unknown> = {
    id,
    type: "webhook_relay.test",
    created_at: new Date(nowMs).toISOString(),
    data: { message: "A test webhook, signed with this endpoint's own configuration." },
  };
  const field = bodyTimestampOf(settings);
  if (field !== null) {
    setAt(body, field.path, field.unit === "s" ? Math.floor(nowMs / 1000) : nowMs);
  }
  return Buffer.from(JSON.stringify(body), "utf8");
}

function bodyTimestampOf(
  settings: VerificationSettings,
): { readonly path: readonly string[]; readonly unit: "s" | "ms" } | null {
  const { method } = settings;
  if (method !== "hmac_sha256" && method !== "hmac_sha1") return null;
  const parsed = parseHmac(effectiveConfig(settings));
  if (!parsed.ok || parsed.settings.timestampBodyField === null) return null;
  return {
    path: parsed.settings.timestampBodyField.split("."),
    unit: parsed.settings.timestampUnit,
  };
}

function setAt(root: Record<string, unknown>, path: readonly string[], value: number): void {
  const [key, ...rest] = path;
  if (key === undefined) return;
  if (rest.length === 0) return setOwn(root, key, value);
  const existing = Object.hasOwn(root, key) ? root[key] : undefined;
  const child =
    typeof existing === "object" && existing !== null ? (existing as Record<string, unknown>) : {};
  setOwn(root, key, child);
  setAt(child, rest, value);
}

/** Sets an own field, even one named `__proto__`, as JSON.parse does. */
function setOwn(root: Record<string, unknown>, key: string, value: unknown): void {
  Object.defineProperty(root, key, {
    value,
    enumerable: true,
    writable: true,
    configurable: true,
  });
}
