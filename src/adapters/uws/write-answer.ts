import type { HttpResponse } from "uWebSockets.js";
import type { Answer } from "../../domain/incoming-request.ts";

/** How long a sender may count on an idle connection: uWebSockets.js closes it some 8 to 12 s after its last request. */
const KEPT_IDLE_SECONDS = 7;

/** The content type, and how long the connection is kept, if it is. */
const LAST = "application/json";
const KEPT = `${LAST}\r\nkeep-alive: timeout=${KEPT_IDLE_SECONDS}`;

/** How an answer is written, which its request decides. */
interface AnswerForm {
  readonly method: string;
  /** The connection is not to be used again. */
  readonly mustClose: boolean;
  /** `writeContinue` was called before. */
  readonly isContinued: boolean;
}

/** Tells the sender to go on with the body. uWebSockets.js would write a status only once, so the one of the answer then goes with its headers. */
export function writeContinue(response: HttpResponse): void {
  response.cork(() => response.writeStatus("100 Continue\r\n"));
}

/** Writes an answer in one go. HEAD gets the headers alone, or the next answer on the connection would be misread. */
export function writeAnswer(
  response: HttpResponse,
  answer: Answer,
  { method, mustClose, isContinued }: AnswerForm,
): void {
  response.cork(() => {
    if (answer.status !== "200 OK" && !isContinued) response.writeStatus(answer.status);
    const type = mustClose ? LAST : KEPT;
    response.writeHeader(
      isContinued ? `HTTP/1.1 ${answer.status}\r\ncontent-type` : "content-type",
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
