import { Buffer } from "node:buffer";
import type { VerificationRequest, VerificationResult } from "../../domain/verification.ts";
import { makePreparedChecks } from "../../signing/prepared-checks.ts";
import { verifyNow } from "./verify-request.ts";

/**
 * Many requests in the form in which they reach a worker: one text, and one piece of shared memory.
 *
 *     json    { configs: [text, …], items: [{ config: index, bodyBytes, … }, …] }
 *     bodies  | body of item 0 | body of item 1 | …
 *
 * A configuration that several requests share travels once.
 */
export interface VerifyBatch {
  readonly json: string;
  readonly bodies: SharedArrayBuffer;
}

/** What an item has as it is. */
type Settings = Omit<VerificationRequest, "config" | "body">;

interface PackedItem extends Settings {
  readonly config: number;
  readonly bodyBytes: number;
}

interface Packed {
  readonly configs: readonly string[];
  readonly items: readonly PackedItem[];
}

/** Copies the bodies into the memory that `take` returns: ingest still needs its own for the log. */
export function packBatch(
  requests: readonly VerificationRequest[],
  take: (sizeBytes: number) => SharedArrayBuffer,
): VerifyBatch {
  const bodies = take(requests.reduce((sum, { body }) => sum + body.byteLength, 0));
  const bytes = new Uint8Array(bodies);
  const configs: string[] = [];
  const indexOf = new Map<object, number>();
  let offset = 0;
  const items = requests.map((request): PackedItem => {
    const { config, body } = request;
    let index = indexOf.get(config);
    if (index === undefined) {
      index = configs.push(JSON.stringify(config)) - 1;
      indexOf.set(config, index);
    }
    bytes.set(body, offset);
    offset += body.byteLength;
    return { config: index, bodyBytes: body.byteLength, ...settingsOf(request) };
  });
  return { json: JSON.stringify({ configs, items } satisfies Packed), bodies };
}

/** Runs in a worker; results are in the order of the requests. */
export type BatchVerifier = (batch: VerifyBatch) => readonly VerificationResult[];

const MAX_KNOWN_CONFIGS = 2000;
/** Total length of their texts, in UTF-16 units; parsed, they take several times as much memory. */
const MAX_KNOWN_LENGTH = 16 * 1024 * 1024;

/**
 * Makes a verifier that keeps the configurations it has seen by their text, so that a worker reads settings and imports keys
 * once and not once per batch.
 */
export function makeBatchVerifier(): BatchVerifier {
  const checks = makePreparedChecks();
  const known = new Map<string, VerificationRequest["config"]>();
  let knownLength = 0;
  const configOf = (json: string): VerificationRequest["config"] => {
    const seen = known.get(json);
    if (seen !== undefined) return seen;
    const config = JSON.parse(json) as VerificationRequest["config"];
    known.set(json, config);
    knownLength += json.length;
    for (const oldest of known.keys()) {
      if (known.size <= MAX_KNOWN_CONFIGS && knownLength <= MAX_KNOWN_LENGTH) break;
      known.delete(oldest);
      knownLength -= oldest.length;
    }
    return config;
  };
  return (batch) => {
    const packed = JSON.parse(batch.json) as Packed;
    const configs = packed.configs.map(configOf);
    let offset = 0;
    return packed.items.map((item) => {
      const body = Buffer.from(batch.bodies, offset, item.bodyBytes);
      offset += item.bodyBytes;
      const config = configs[item.config] ?? {};
      return verifyNow({ config, body, ...settingsOf(item) }, checks);
    });
  };
}

/** Named one by one: Node 20 takes 4 µs for the rest of an object and what is added to it. */
function settingsOf(request: Settings): Settings {
  return {
    provider: request.provider,
    method: request.method,
    methodIsExplicit: request.methodIsExplicit,
    secret: request.secret,
    url: request.url,
    httpMethod: request.httpMethod,
    headers: request.headers,
    nowMs: request.nowMs,
    remoteAddress: request.remoteAddress,
    trustedProxies: request.trustedProxies,
  };
}
