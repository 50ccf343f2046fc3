import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { makeSealedRows } from "../adapters/postgres/sealed-rows.ts";
import type { OpenConfigStore } from "../app/open-config-store.ts";
import { makeKeyMark, markKey } from "../app/key-mark.ts";
import { loadConfig } from "../config/load-config.ts";
import { base64Key } from "../config/value-types.ts";
import { systemReason, UsageError } from "../domain/errors.ts";
import { reencryptAll } from "../management/reencrypt.ts";
import { makeSecretBox, SealedValueError } from "../management/secret-box.ts";
import { printLine, type CommandIo } from "./io.ts";
import { withConfigStore } from "./with-config-store.ts";

/**
 * `relay secrets reencrypt`: reseals every stored secret under RELAY_ENCRYPTION_KEY. Run again after an interruption,
 * it continues with what is left.
 * @throws {UsageError} when a key is missing or invalid, or a row opens under neither
 */
export async function reencryptSecrets(
  io: CommandIo,
  options: { readonly oldKeyFile: string },
): Promise<void> {
  const { encryptionKey } = loadConfig(io.env);
  if (encryptionKey === null)
    throw new UsageError(
      "set RELAY_ENCRYPTION_KEY to the new key (make one with: openssl rand -base64 32)",
    );
  const box = makeSecretBox({
    key: Buffer.from(encryptionKey, "base64"),
    retiredKeys: [await readKeyFile(options.oldKeyFile)],
    randomBytes,
  });
  const reencrypt = async (store: OpenConfigStore): Promise<void> => {
    const { rewritten, alreadyCurrent } = await reencryptAll(
      makeSealedRows(store.database),
      box,
    ).catch(explain);
    await markKey(makeKeyMark(store.database), box);
    printLine(
      io.stdout,
      `${rewritten} rows are encrypted anew, ${alreadyCurrent} were under the new key before`,
    );
    printLine(io.stdout, "Start every relay process with this RELAY_ENCRYPTION_KEY from now on.");
  };
  // A running relay has the old key and could no longer read any secret.
  await withConfigStore(io, reencrypt, { beside: false });
}

async function readKeyFile(path: string): Promise<Uint8Array> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (cause) {
    throw new UsageError(
      `--old-key-file ${path} cannot be read (${systemReason(cause)}): name a file that this user may read`,
      { cause },
    );
  }
  const parsed = base64Key.safeParse(text.trim());
  if (!parsed.success) throw new UsageError(`--old-key-file ${path} must hold 32 bytes in base64`);
  return Buffer.from(parsed.data, "base64");
}

function explain(error: unknown): never {
  if (error instanceof SealedValueError && error.code === "unknown_key")
    throw new UsageError(
      `${error.rowId} opens neither under RELAY_ENCRYPTION_KEY nor under the key in --old-key-file: give the key it was stored with`,
      { cause: error },
    );
  throw error;
}
