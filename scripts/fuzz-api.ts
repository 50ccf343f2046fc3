/**
 * A long fuzz of the management API from its OpenAPI document: our own generator, then schemathesis with all
 * phases and checks where it is installed (`pip install schemathesis`).
 *
 *   tsx scripts/fuzz-api.ts [--runs 20000] [--seed N] [--examples 100] [--url http://localhost:8080 --key rk_…]
 *
 * Without --url it runs against the API on in-memory stores. Exit code 1 when anything is found.
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { makeClient } from "../src/client/client.ts";
import { fuzzApi } from "../test/support/api-fuzz.ts";
import { startFakeHarness } from "../test/support/api-harness.ts";

const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "20000" },
    seed: { type: "string" },
    examples: { type: "string", default: "100" },
    url: { type: "string" },
    key: { type: "string" },
  },
});

const ROUNDS = 20;
const CONFIG = fileURLToPath(new URL("fuzz-api.schemathesis.toml", import.meta.url));

async function main(): Promise<boolean> {
  if (values.url !== undefined && values.key !== undefined)
    return fuzz({ baseUrl: values.url, key: values.key });
  const harness = await startFakeHarness();
  try {
    return await fuzz({ baseUrl: harness.baseUrl, key: (await harness.newKey()).key });
  } finally {
    await harness[Symbol.asyncDispose]();
  }
}

async function fuzz(target: { readonly baseUrl: string; readonly key: string }): Promise<boolean> {
  const total = new Map<number, number>();
  // Run in rounds with fresh resources, since every round deletes most of its own.
  for (let round = 0; round < ROUNDS; round += 1) {
    const counts = await fuzzApi({
      ...target,
      runs: Math.ceil(Number(values.runs) / ROUNDS),
      knownIds: await makeResources(target),
      ...(values.seed === undefined ? {} : { seed: Number(values.seed) + round }),
    });
    for (const [status, count] of counts) total.set(status, (total.get(status) ?? 0) + count);
  }
  console.log(
    "own generator: no 5xx, nothing undocumented. Answers by status:",
    Object.fromEntries(total),
  );
  return runSchemathesis(target);
}

async function makeResources({
  baseUrl,
  key,
}: {
  baseUrl: string;
  key: string;
}): Promise<string[]> {
  const client = makeClient({ baseUrl, apiKey: key });
  const project = await client.projects.create({ name: `Fuzz ${Math.random()}` });
  const endpoint = await client.endpoints.create(project.id, {
    name: "Fuzz",
    provider: "custom",
    verification_method: "none",
  });
  const destination = await client.destinations.create(endpoint.id, {
    name: "Fuzz",
    receiver_url: "https://hooks.example.com/fuzz",
  });
  const { data } = await client.events.search({ limit: 5 });
  return [project.id, endpoint.id, destination.id, ...data.map((event) => event.id)];
}

async function runSchemathesis({
  baseUrl,
  key,
}: {
  baseUrl: string;
  key: string;
}): Promise<boolean> {
  const command = ["schemathesis", "st"].find(
    (name) => spawnSync(name, ["--version"], { stdio: "ignore" }).status === 0,
  );
  if (command === undefined) {
    console.warn("SKIPPED schemathesis: it is not installed (pip install schemathesis).");
    return true;
  }
  // Not a blocking call: the service may run in this very process.
  const child = spawn(
    command,
    [
      "--config-file",
      CONFIG,
      "run",
      `${baseUrl}/openapi.json`,
      "--header",
      `Authorization: Bearer ${key}`,
      "--workers=1",
      "--no-color",
      "--checks=all",
      `--max-examples=${values.examples}`,
      ...(values.seed === undefined ? [] : ["--seed", values.seed]),
    ],
    { stdio: "inherit" },
  );
  const [exitCode] = (await once(child, "exit")) as [number | null];
  return exitCode === 0;
}

process.exitCode = (await main()) ? 0 : 1;
