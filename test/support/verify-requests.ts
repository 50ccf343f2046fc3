import { createHmac } from "node:crypto";
import type { VerificationRequest } from "../../src/domain/verification.ts";
import type { VerifyMetrics } from "../../src/pipeline/verify/verify-metrics.ts";

export const NOW_MS = Date.UTC(2026, 0, 2, 3, 4, 5);

/** Makes an unsigned request with defaults for everything. */
export function makeRequest(parts: Partial<VerificationRequest> = {}): VerificationRequest {
  return {
    provider: "custom",
    method: "hmac_sha256",
    methodIsExplicit: true,
    secret: "s3cret",
    config: { header: "X-Signature" },
    url: "https://relay.example/in/token?x=1",
    httpMethod: "POST",
    headers: [],
    body: Buffer.from('{"id":1}'),
    nowMs: NOW_MS,
    remoteAddress: "192.0.2.1",
    trustedProxies: [],
    ...parts,
  };
}

/** Makes a genuine HMAC request with a body of this size. */
export function makeSignedRequest(
  sizeBytes: number,
  parts: Partial<VerificationRequest> = {},
): VerificationRequest {
  const body = Buffer.alloc(sizeBytes, "a");
  const digest = createHmac("sha256", parts.secret ?? "s3cret")
    .update(body)
    .digest("hex");
  return makeRequest({ body, headers: [["X-Signature", digest]], ...parts });
}

export interface CountedMetrics extends VerifyMetrics {
  readonly verifiedBy: { inline: number; pool: number };
  readonly failures: string[];
  readonly batches: number[];
}

export function countMetrics(): CountedMetrics {
  const verifiedBy = { inline: 0, pool: 0 };
  const failures: string[] = [];
  const batches: number[] = [];
  return {
    verifiedBy,
    failures,
    batches,
    verified(_method, where) {
      verifiedBy[where] += 1;
    },
    unavailable(cause) {
      failures.push(cause);
    },
    batchSent(requests) {
      batches.push(requests);
    },
    queued() {},
  };
}
