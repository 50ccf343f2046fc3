import { LogError } from "../../src/domain/log.ts";
import type { LogProducer } from "../../src/domain/log.ts";

/** Appends texts to a log, one after the other, and keeps what it answered each: the offset, or of an error what `tell` says. */
export function makeLogAnswers(log: LogProducer, tell: (error: LogError) => string) {
  const answers: [what: string, answer: number | string][] = [];
  return {
    answers,
    async append(what: string, sizeBytes = 0): Promise<void> {
      const value = Buffer.from(what.padEnd(sizeBytes));
      const answer = await log.append([{ topic: "events", key: "k", partition: 0, value }]).then(
        ([position]) => position!.offset,
        (error: unknown) => (error instanceof LogError ? tell(error) : String(error)),
      );
      answers.push([what, answer]);
    },
  };
}
