import { Buffer } from "node:buffer";
import type { HttpResponse } from "uWebSockets.js";
import type { Answer } from "./handler.ts";

const CONTENT_TYPE = "application/json";

/** Writes an answer in one go. HEAD gets the headers alone, or the next answer on the connection is misread. */
export function writeAnswer(
  response: HttpResponse,
  method: string,
  answer: Answer,
  mustClose: boolean,
): void {
  response.cork(() => {
    if (answer.status !== "200 OK") response.writeStatus(answer.status);
    response.writeHeader("content-type", CONTENT_TYPE);
    if (answer.eventId !== null) response.writeHeader("x-relay-event-id", answer.eventId);
    if (answer.extraHeader !== null)
      response.writeHeader(answer.extraHeader[0], answer.extraHeader[1]);
    if (method === "HEAD") response.endWithoutBody(Buffer.byteLength(answer.body), mustClose);
    else response.end(answer.body, mustClose);
  });
}
