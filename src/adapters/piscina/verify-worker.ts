import { makeBatchVerifier } from "../../pipeline/verify/verify-batch.ts";

/** What a thread of the pool runs; each thread keeps the configurations it has seen. */
export const verifyBatch = makeBatchVerifier();
