import { createCipheriv, createDecipheriv, createHash } from "node:crypto";

/**
 * Layout of a sealed value:
 *
 *   byte 0        version (1)
 *   bytes 1..8    id of the key: first 8 bytes of its SHA-256
 *   bytes 9..20   nonce
 *   bytes 21..36  authentication tag
 *   rest          AES-256-GCM ciphertext of the value as JSON
 *
 * The row id is additional data: a sealed value that is copied into another row does not open.
 */
const VERSION = 1;
const KEY_ID_BYTES = 8;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const NONCE_AT = 1 + KEY_ID_BYTES;
const TAG_AT = NONCE_AT + NONCE_BYTES;
const HEAD_BYTES = TAG_AT + TAG_BYTES;
const KEY_BYTES = 32;

export interface SecretBox {
  seal(value: unknown, rowId: string): Uint8Array;
  /** @throws {SealedValueError} */
  open(sealed: Uint8Array, rowId: string): unknown;
  /** Returns false for what a retired key sealed. */
  isCurrent(sealed: Uint8Array): boolean;
}

/** Thrown when a sealed value cannot be opened. Never says what is inside. */
export class SealedValueError extends Error {
  readonly code: "unknown_key" | "damaged";
  readonly rowId: string;
  constructor(code: SealedValueError["code"], rowId: string, options?: ErrorOptions) {
    super(
      code === "unknown_key"
        ? `${rowId} was encrypted under another key: is RELAY_ENCRYPTION_KEY the one it was stored with?`
        : `${rowId} cannot be decrypted: it was changed or moved outside of the relay`,
      options,
    );
    this.name = "SealedValueError";
    this.code = code;
    this.rowId = rowId;
  }
}

/**
 * Makes a box that seals under `key` and opens under `key` and, while values are re-encrypted, `retiredKeys`. Keys are 32 bytes.
 * @throws {RangeError} on a key of another size
 */
export function makeSecretBox(options: {
  readonly key: Uint8Array;
  readonly retiredKeys?: readonly Uint8Array[];
  readonly randomBytes: (size: number) => Uint8Array;
}): SecretBox {
  const keys = new Map<string, Uint8Array>();
  for (const key of [options.key, ...(options.retiredKeys ?? [])]) {
    if (key.byteLength !== KEY_BYTES) throw new RangeError("an encryption key is 32 bytes");
    keys.set(keyIdOf(key).toString("hex"), key);
  }
  const currentId = keyIdOf(options.key);

  return {
    seal(value, rowId) {
      const nonce = options.randomBytes(NONCE_BYTES);
      const cipher = createCipheriv("aes-256-gcm", options.key, nonce);
      cipher.setAAD(Buffer.from(rowId));
      const text = Buffer.concat([cipher.update(JSON.stringify(value), "utf8"), cipher.final()]);
      return Buffer.concat([Buffer.from([VERSION]), currentId, nonce, cipher.getAuthTag(), text]);
    },
    open(sealed, rowId) {
      const bytes = Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength);
      if (bytes.length < HEAD_BYTES || bytes[0] !== VERSION)
        throw new SealedValueError("damaged", rowId);
      const key = keys.get(keyIdIn(bytes).toString("hex"));
      if (key === undefined) throw new SealedValueError("unknown_key", rowId);
      const decipher = createDecipheriv("aes-256-gcm", key, nonceOf(bytes), {
        authTagLength: TAG_BYTES,
      });
      decipher.setAAD(Buffer.from(rowId));
      decipher.setAuthTag(bytes.subarray(TAG_AT, HEAD_BYTES));
      try {
        const text = Buffer.concat([decipher.update(bytes.subarray(HEAD_BYTES)), decipher.final()]);
        const value: unknown = JSON.parse(text.toString("utf8"));
        return value;
      } catch (error) {
        throw new SealedValueError("damaged", rowId, { cause: error });
      }
    },
    isCurrent: (sealed) => keyIdIn(sealed).equals(currentId),
  };
}

/** Returns the nonce, which is new for each sealing and so tells two of the same value apart. */
export function nonceOf(sealed: Uint8Array): Uint8Array {
  return sealed.subarray(NONCE_AT, TAG_AT);
}

function keyIdOf(key: Uint8Array): Buffer {
  return createHash("sha256").update("relay key id").update(key).digest().subarray(0, KEY_ID_BYTES);
}

function keyIdIn(sealed: Uint8Array): Buffer {
  return Buffer.from(sealed.subarray(1, 1 + KEY_ID_BYTES));
}
