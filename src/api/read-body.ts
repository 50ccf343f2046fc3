import { isRecord } from "../domain/is-record.ts";
import { ApiFailure, invalid } from "./api-failure.ts";
import type { BodyShare } from "./body-room.ts";
import type { BodyTurn } from "./body-turns.ts";
import { checkJson } from "./check-json.ts";
import { isJsonInUtf8 } from "./json-type.ts";

const MAX_BODY_BYTES = 1_048_576;

/**
 * Reads the JSON of a request that needs a body.
 * @throws {ApiFailure} `payload_too_large`, `unsupported_media_type`, `validation_error`, `rate_limited`
 */
export async function readJsonBody(
  request: Request,
  turn: BodyTurn,
  share: BodyShare,
): Promise<unknown> {
  const contentType = request.headers.get("content-type");
  if (contentType !== null && !isJsonInUtf8(contentType)) throw notJson();
  const encoding = request.headers.get("content-encoding");
  if (encoding !== null && encoding.trim().toLowerCase() !== "identity")
    throw new ApiFailure(
      "unsupported_media_type",
      "Content-Encoding: send the body without compression.",
    );
  const bytes = await readBytes(request, share);
  if (bytes.length === 0) throw invalid("body", "a JSON object is required.");
  if (contentType === null) throw notJson();
  await turn(bytes.length);
  const json = parseJson(bytes);
  checkJson(json);
  return json;
}

/**
 * Reads the body of an operation that takes none: empty, or `{}` as some clients send. Anything else is a
 * misunderstanding that must not pass silently (`{"destination_id": …}` on a replay to all).
 * @throws {ApiFailure} `payload_too_large`, `validation_error`, `rate_limited`
 */
export async function refuseBody(
  request: Request,
  turn: BodyTurn,
  share: BodyShare,
): Promise<void> {
  const bytes = await readBytes(request, share);
  if (bytes.length === 0) return;
  await turn(bytes.length);
  const json = parseJson(bytes);
  if (isRecord(json) && Object.keys(json).length === 0) return;
  throw invalid("body", "this operation takes no body.");
}

async function readBytes(request: Request, share: BodyShare): Promise<Uint8Array> {
  // A body whose announced length is too large is refused before its first byte is read.
  if (Number(request.headers.get("content-length") ?? 0) > MAX_BODY_BYTES) throw tooLarge();
  if (request.body === null) return new Uint8Array(0);
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  const reader = request.body.getReader();
  for (;;) {
    const { done, value } = await reader.read().catch((cause: unknown) => {
      throw new ApiFailure("validation_error", "body: the request ended before its body.", {
        cause,
      });
    });
    if (done) return Buffer.concat(chunks, sizeBytes);
    sizeBytes += value.length;
    try {
      if (sizeBytes > MAX_BODY_BYTES) throw tooLarge();
      share.add(value.length);
    } catch (error) {
      void discardRest(reader);
      throw error;
    }
    chunks.push(value);
  }
}

/**
 * Drops what the client still sends, since many read an answer only after their last byte. It would stay unread otherwise, and
 * cancelling closes the connection. The server ends this by closing the connection soon after its answer.
 */
async function discardRest(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
  try {
    while (!(await reader.read()).done);
  } catch {
    // The connection has ended.
  }
}

function parseJson(bytes: Uint8Array): unknown {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new ApiFailure("validation_error", "body: must be UTF-8.", { cause });
  }
  try {
    return JSON.parse(text);
  } catch {
    // The parser's own message quotes the body, which may hold a secret.
    throw invalid("body", "is not valid JSON.");
  }
}

function notJson(): ApiFailure {
  return new ApiFailure(
    "unsupported_media_type",
    "Content-Type: must be application/json in UTF-8.",
  );
}

function tooLarge(): ApiFailure {
  return new ApiFailure("payload_too_large", `The body is larger than ${MAX_BODY_BYTES} bytes.`);
}
