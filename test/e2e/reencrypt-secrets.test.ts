import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createGithubEndpoint, postGithubWebhook } from "../support/github-webhook.ts";
import { makeRelayProcess, runRelay } from "../support/relay-process.ts";

it("relay secrets reencrypt: secrets go on working under the new key, and under the old one no more", async () => {
  const keys = { old: randomBytes(32), next: randomBytes(32), other: randomBytes(32) };
  const base64 = (key: Buffer) => key.toString("base64");
  await using relay = await makeRelayProcess({ RELAY_ENCRYPTION_KEY: base64(keys.old) });
  await relay.start();
  const endpoint = await createGithubEndpoint(relay.client, "Keys");
  await relay.client.destinations.create(endpoint.id, {
    name: "Receiver",
    receiver_url: "http://127.0.0.1:19999/",
  });
  const oldKeyFile = join(relay.dataDir, "old.key");
  const reencrypt = (key: Buffer | null, file = oldKeyFile) =>
    runRelay(["secrets", "reencrypt", "--old-key-file", file], {
      RELAY_DATA_DIR: relay.dataDir,
      ...(key === null ? {} : { RELAY_ENCRYPTION_KEY: base64(key) }),
    });
  expect(await reencrypt(keys.next)).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/cannot be read/),
  });
  await writeFile(oldKeyFile, base64(keys.old));
  // Not beside a running relay, which would answer 503 to every webhook from then on.
  expect(await reencrypt(keys.next)).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/a relay runs on the data directory .*: stop it/),
  });
  expect((await postGithubWebhook(endpoint.url, "{}")).status).toBe(200);
  expect(await relay.kill("SIGTERM")).toBe(0);

  await writeFile(oldKeyFile, "too short");
  expect(await reencrypt(keys.next)).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/32 bytes in base64/),
  });
  await writeFile(oldKeyFile, `${base64(keys.other)}\n`);
  expect(await reencrypt(keys.next)).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/opens neither/),
  });
  await writeFile(oldKeyFile, `${base64(keys.old)}\n`);
  expect(await reencrypt(null)).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/set RELAY_ENCRYPTION_KEY/),
  });
  expect(await reencrypt(keys.next)).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^2 rows .* 0 were/),
  });
  expect(await reencrypt(keys.next)).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^0 rows .* 2 were/),
  });

  // It must not start under the old key or a newly made one: it would be ready, but answer 503 to every webhook.
  const { RELAY_ENCRYPTION_KEY: _, ...withoutKey } = relay.env;
  expect(await runRelay(["start"], relay.env)).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/encrypted under another key .*: set RELAY_ENCRYPTION_KEY/),
  });
  // A key file made at this start would stand in the way of restoring the right one.
  expect(await runRelay(["start"], withoutKey)).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/encryption.key is missing, .*: restore it, or set RELAY_ENCR/),
  });
  expect(existsSync(join(relay.dataDir, "encryption.key"))).toBe(false);
  relay.env["RELAY_ENCRYPTION_KEY"] = base64(keys.next);
  await relay.start();
  expect((await postGithubWebhook(endpoint.url, "{}")).status).toBe(200);
  expect((await postGithubWebhook(endpoint.url, "{}", "forged")).status).toBe(401);
}, 300_000);

it("regression: a key other than that of the first start is refused while no secret is stored: each of two processes encrypted what the other could not read", async () => {
  const [first, other] = [randomBytes(32), randomBytes(32)].map((key) => key.toString("base64"));
  await using relay = await makeRelayProcess({ RELAY_ENCRYPTION_KEY: first! });
  await relay.start();
  expect(await relay.kill("SIGTERM")).toBe(0);
  relay.env["RELAY_ENCRYPTION_KEY"] = other!;
  expect(await runRelay(["start"], relay.env)).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(
      /no secret is stored yet, .* started with another key before: set/,
    ),
  });
  const oldKeyFile = join(relay.dataDir, "old.key");
  await writeFile(oldKeyFile, first!);
  expect(
    await runRelay(["secrets", "reencrypt", "--old-key-file", oldKeyFile], relay.env),
  ).toMatchObject({ code: 0, stdout: expect.stringMatching(/^0 rows .* 0 were/) });
  await relay.start();
  const endpoint = await createGithubEndpoint(relay.client, "Keys");
  expect((await postGithubWebhook(endpoint.url, "{}")).status).toBe(200);
}, 120_000);
