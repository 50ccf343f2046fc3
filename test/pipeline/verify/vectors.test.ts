import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { verifyLine } from "../../../src/cli/verify-line.ts";
import type { VerificationRequest, VerificationResult } from "../../../src/domain/verification.ts";
import { makeBatchVerifier, packBatch } from "../../../src/pipeline/verify/verify-batch.ts";
import { makeVerifyPorts, verifyNow } from "../../../src/pipeline/verify/verify-request.ts";
import type { PreparedChecks } from "../../../src/signing/prepared-checks.ts";
import { PRESETS } from "../../../src/signing/presets.ts";
import {
  parseServiceSecret,
  signDelivery,
  verifyDelivery,
} from "../../../src/signing/standard-webhooks.ts";
import { makeRequest } from "../../support/verify-requests.ts";

interface Vector {
  readonly id: string;
  readonly kind: "inbound" | "outbound" | "outbound_secret";
  readonly secret: string;
  readonly secrets: readonly string[];
  readonly webhook_id: string;
  readonly webhook_timestamp: number;
  readonly body_base64: string;
  readonly expect: {
    readonly valid: boolean;
    readonly reason: string;
    readonly headers: Readonly<Record<string, string>>;
  };
}

const file = JSON.parse(
  readFileSync(new URL("../../vectors/verification.json", import.meta.url), "utf8"),
) as { presets: Record<string, { verification_method: string }>; vectors: Vector[] };

describe("inbound vectors, through the code of relay verify", () => {
  const ports = makeVerifyPorts(null);
  for (const vector of file.vectors.filter(({ kind }) => kind === "inbound")) {
    it(vector.id, async () => {
      const answer = JSON.parse(
        await verifyLine(JSON.stringify(vector), ports, { nowMs: Date.now }),
      );
      const { valid, reason } = vector.expect;
      expect(answer).toMatchObject({ id: vector.id, valid, reason });
      if (valid) expect(answer.message).toBeNull();
      else expect(answer.message.length).toBeGreaterThan(20);
    });
  }
});

it("all of them in one batch, as a thread of the pool gets them, each get their own verdict", async () => {
  const { checks, ...ports } = makeVerifyPorts(null);
  const requests: VerificationRequest[] = [];
  const noting: PreparedChecks = (request) => {
    requests.push(request);
    return checks(request);
  };
  const inbound = file.vectors.filter(({ kind }) => kind === "inbound");
  const verdicts: unknown[] = [];
  for (const vector of inbound) {
    const known = requests.length;
    const line = await verifyLine(
      JSON.stringify(vector),
      { ...ports, checks: noting },
      { nowMs: Date.now },
    );
    // Some are refused before they are checked.
    if (requests.length > known) verdicts.push(JSON.parse(line));
  }
  expect(requests.length).toBeGreaterThan(100);
  const batch = packBatch(requests, (sizeBytes) => new SharedArrayBuffer(sizeBytes));
  expect(makeBatchVerifier()(batch)).toMatchObject(
    verdicts.map((verdict) => {
      const { valid, reason, message } = verdict as VerificationResult;
      return { valid, reason, message };
    }),
  );
});

it("a check that throws refuses the request, and does not end the process", () => {
  const checks: PreparedChecks = () => {
    throw new Error("broken");
  };
  expect(verifyNow(makeRequest(), checks)).toMatchObject({
    valid: false,
    reason: "internal_error",
  });
});

describe("outbound vectors", () => {
  for (const vector of file.vectors.filter(({ kind }) => kind === "outbound")) {
    it(vector.id, () => {
      const delivery = {
        id: vector.webhook_id,
        timestampSeconds: vector.webhook_timestamp,
        body: Buffer.from(vector.body_base64, "base64"),
      };
      const header = signDelivery({ ...delivery, secrets: vector.secrets });
      expect(header).toBe(vector.expect.headers["webhook-signature"]);
      for (const secret of vector.secrets) {
        expect(verifyDelivery(delivery, secret, header)).toBe(true);
      }
    });
  }
});

describe("delivery secret vectors", () => {
  for (const vector of file.vectors.filter(({ kind }) => kind === "outbound_secret")) {
    it(vector.id, () => {
      const { valid, reason } = vector.expect;
      expect(parseServiceSecret(vector.secret)).toMatchObject({ valid, reason });
    });
  }
});

describe("presets", () => {
  it("are those of the vectors' table", () => {
    const presets = Object.entries(file.presets).map(([provider, preset]) => {
      const { verification_method: method, ...config } = preset;
      return [provider, { method, config }];
    });
    expect(PRESETS).toEqual(Object.fromEntries(presets));
  });
});
