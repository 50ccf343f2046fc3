import type { HttpResponse } from "uWebSockets.js";
import type { Answer } from "../../domain/incoming-request.ts";

const CONTENT_TYPE = "application/json";
const EVENT_ID_AFTER_TYPE = `${CONTENT_TYPE}\r\nx-relay-event-id: `;

/** Writes an answer in one go. HEAD gets the headers alone, or the next answer on the connection is misread. */
export function writeAnswer(
  response: HttpResponse,
  method: string,
  answer: Answer,
  mustClose: boolean,
): void {
  response.cork(() => {
    if (answer.status !== "200 OK") response.writeStatus(answer.status);
    response.writeHeader(
      "content-type",
      // Two header lines in one crossing into native code. The id is our own: nothing can be injected.
      answer.eventId === null ? CONTENT_TYPE : `${EVENT_ID_AFTER_TYPE}${answer.eventId}`,
    );
    if (answer.extraHeader !== null)
      response.writeHeader(answer.extraHeader[0], answer.extraHeader[1]);
    if (method === "HEAD") endWithoutBody(response, mustClose);
    else response.end(answer.body, mustClose);
  });
}

/** No length is reported: uWebSockets.js would close the connection as if that many bytes were still owed. */
function endWithoutBody(response: HttpResponse, mustClose: boolean): void {
  if (mustClose) response.endWithoutBody(0, true);
  else response.endWithoutBody();
}
