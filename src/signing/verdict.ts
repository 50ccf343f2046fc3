import type { RefusalReason, VerificationResult } from "../domain/verification.ts";

export const GENUINE: VerificationResult = Object.freeze({
  valid: true,
  reason: "ok",
  message: null,
});

/** Makes a refusal. The message tells the operator what to do and holds no secret, credential or expected digest. */
export function refuse(reason: RefusalReason, message: string): VerificationResult {
  return { valid: false, reason, message };
}
