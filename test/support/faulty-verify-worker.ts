import { makeBatchVerifier } from "../../src/pipeline/verify/verify-batch.ts";
import type { VerifyBatch } from "../../src/pipeline/verify/verify-batch.ts";

const verify = makeBatchVerifier();

/** Does what the real worker does, except for requests whose URL asks for a fault. */
export function verifyBatch(batch: VerifyBatch): unknown {
  if (batch.json.includes("/fault-loop")) {
    for (;;) {
      // Only terminating the thread stops this.
    }
  }
  if (batch.json.includes("/fault-exit")) process.exit(3);
  if (batch.json.includes("/fault-throw")) throw new Error("fault");
  return verify(batch);
}
