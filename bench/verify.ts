/**
 * Verification in the pool compared with inline, by method and body size: the basis of `INLINE_MAX_BYTES`.
 *
 * "loop" is the CPU time of the main thread per request, which ingest cannot spend on anything else. It comes from
 * the scheduler (/proc/…/schedstat), so it holds on a busy machine too; the rates are only as stable as the machine.
 */
import { makeSystemClock } from "../src/app/system-clock.ts";
import { createHmac, generateKeyPairSync, sign } from "node:crypto";
import type { KeyObject } from "node:crypto";
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { startVerifyPool } from "../src/adapters/piscina/verify-pool.ts";
import type { VerificationRequest } from "../src/domain/verification.ts";
import { makeVerifier } from "../src/pipeline/verify/verifier.ts";
import type { Verifier } from "../src/pipeline/verify/verifier.ts";
import { readNumbers } from "./lib/read-options.ts";

const USAGE = 'NODE_OPTIONS="--import tsx" node bench/verify.ts [seconds per cell, default 0.5]';
const SECONDS = Number(readNumbers(USAGE, { seconds: "0.5" }).seconds);
const IN_FLIGHT = 128;
/** Half of the pool's queue capacity. */
const IN_FLIGHT_BYTES = 32 * 1024 * 1024;
const THREADS = Math.max(1, availableParallelism() - 1);

interface Case {
  readonly name: string;
  readonly request: VerificationRequest;
}

interface Cell {
  readonly perSecond: number;
  readonly loopMicros: number;
}

function requestOf(parts: Partial<VerificationRequest>): VerificationRequest {
  return {
    provider: "custom",
    method: "hmac_sha256",
    methodIsExplicit: true,
    secret: "whsec_bench",
    config: {},
    url: "https://relay.example/in/bench",
    httpMethod: "POST",
    headers: [],
    body: new Uint8Array(0),
    nowMs: Date.now(),
    remoteAddress: "192.0.2.1",
    trustedProxies: [],
    ...parts,
  };
}

function hmacCase(sizeKb: number): Case {
  const body = Buffer.alloc(sizeKb * 1024, "x");
  const digest = createHmac("sha256", "whsec_bench").update(body).digest("hex");
  const headers: [string, string][] = [
    ["Content-Type", "application/json"],
    ["User-Agent", "bench/1.0"],
    ["X-Signature", digest],
  ];
  const config = { header: "X-Signature" };
  return { name: `HMAC-SHA256, ${sizeKb} KB`, request: requestOf({ body, headers, config }) };
}

function jwtCase(algorithm: string, publicKey: KeyObject, privateKey: KeyObject): Case {
  const encode = (value: object): string =>
    Buffer.from(JSON.stringify(value)).toString("base64url");
  const input = `${encode({ alg: algorithm })}.${encode({ iss: "bench", exp: 4_000_000_000 })}`;
  const hash = algorithm === "EdDSA" ? null : "sha256";
  const signature = sign(hash, Buffer.from(input), { key: privateKey, dsaEncoding: "ieee-p1363" });
  const config = {
    algorithms: [algorithm],
    public_key: publicKey.export({ type: "spki", format: "pem" }),
  };
  const headers: [string, string][] = [
    ["Authorization", `Bearer ${input}.${signature.toString("base64url")}`],
  ];
  const body = Buffer.alloc(1024, "x");
  return {
    name: `JWT ${algorithm}, 1 KB`,
    request: requestOf({ method: "jwt", secret: null, config, headers, body }),
  };
}

function makeCases(): readonly Case[] {
  const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const ec = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const ed = generateKeyPairSync("ed25519");
  return [
    ...[1, 10, 16, 32, 64, 100, 1000].map(hmacCase),
    jwtCase("RS256", rsa.publicKey, rsa.privateKey),
    jwtCase("ES256", ec.publicKey, ec.privateKey),
    jwtCase("EdDSA", ed.publicKey, ed.privateKey),
  ];
}

/** Measures in a closed loop with a fixed number of requests in flight, as with many connections. */
async function measure(verifier: Verifier, request: VerificationRequest): Promise<Cell> {
  await run(verifier, request, 0.1);
  return run(verifier, request, SECONDS);
}

async function run(
  verifier: Verifier,
  request: VerificationRequest,
  seconds: number,
): Promise<Cell> {
  const startedAt = performance.now();
  const cpuBefore = mainThreadCpuMicros();
  const endAt = startedAt + seconds * 1000;
  let verified = 0;
  const keepOneInFlight = async (): Promise<void> => {
    while (performance.now() < endAt) {
      const result = await verifier.verify(request);
      if (result === "unavailable" || !result.valid) throw new Error(JSON.stringify(result));
      verified += 1;
      // Ingest reads its requests from sockets, so the event loop turns between them.
      if (verified % IN_FLIGHT === 0) await new Promise(setImmediate);
    }
  };
  const inFlight = Math.min(IN_FLIGHT, Math.floor(IN_FLIGHT_BYTES / request.body.byteLength));
  await Promise.all(Array.from({ length: inFlight }, keepOneInFlight));
  const elapsedMs = performance.now() - startedAt;
  const cpuMicros = mainThreadCpuMicros() - cpuBefore;
  return { perSecond: verified / (elapsedMs / 1000), loopMicros: cpuMicros / verified };
}

function mainThreadCpuMicros(): number {
  const path = `/proc/${process.pid}/task/${process.pid}/schedstat`;
  return Number(readFileSync(path, "utf8").split(" ")[0]) / 1000;
}

const metrics = { verified() {}, unavailable() {}, batchSent() {}, queued() {} };
const clock = makeSystemClock();

await using pool = await startVerifyPool({ threads: THREADS });
await using inline = makeVerifier({ pool: null, jwks: null, metrics, clock });
await using pooled = makeVerifier({
  pool,
  jwks: null,
  metrics,
  clock,
  limits: { inlineMaxBytes: -1 },
});

console.log(
  `node ${process.version}, ${availableParallelism()} cores, ${THREADS} pool threads, ${IN_FLIGHT} in flight`,
);
console.log("| case | inline /s | inline loop µs | pool /s | pool loop µs |");
console.log("| --- | ---: | ---: | ---: | ---: |");
for (const { name, request } of makeCases()) {
  const a = await measure(inline, request);
  const b = await measure(pooled, request);
  const cells = [a.perSecond, a.loopMicros, b.perSecond, b.loopMicros];
  console.log(
    `| ${name} | ${cells.map((cell) => cell.toFixed(cell < 1000 ? 1 : 0)).join(" | ")} |`,
  );
}
