import type { HttpResponse } from "uWebSockets.js";
import type { Answer } from "../../domain/incoming-request.ts";

/** How long a sender may count on an idle connection: uWebSockets.js closes it some 8 to 12 s after its last request. */
const KEPT_IDLE_SECONDS = 7;

/** The content type, and how long the connection is kept, if it is. */
const LAST = "application/json";
const KEPT = `${LAST}\r\nkeep-alive: timeout=${KEPT_IDLE_SECONDS}`;

/** Writes an answer in one go. HEAD gets the headers alone, or the next answer on the connection would be misread. */
export function writeAnswer(
  response: HttpResponse,
  method: string,
  answer: Answer,
  mustClose: boolean,
): void {
  response.cork(() => {
    if (answer.status !== "200 OK") response.writeStatus(answer.status);
    const type = mustClose ? LAST : KEPT;
    response.writeHeader(
      "content-type",
      // Several header lines in one crossing into native code. The id is our own: nothing can be injected.
      answer.eventId === null ? type : `${type}\r\nx-relay-event-id: ${answer.eventId}`,
    );
    if (answer.extraHeader !== null)
      response.writeHeader(answer.extraHeader[0], answer.extraHeader[1]);
    if (method === "HEAD") endWithoutBody(response, mustClose);
    else response.end(answer.body, mustClose);
  });
}

/** Reports no length: uWebSockets.js would close the connection as if that many bytes were still owed. */
function endWithoutBody(response: HttpResponse, mustClose: boolean): void {
  if (mustClose) response.endWithoutBody(0, true);
  else response.endWithoutBody();
}
