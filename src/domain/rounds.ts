import { nextTurn } from "./next-turn.ts";

/** Answers in the order of the questions. If it fails, all of them fail alike. */
type AnswerAll<Asked, Answer> = (
  subject: string,
  asked: readonly Asked[],
) => Promise<readonly Answer[]>;

interface Waiting<Asked, Answer> {
  readonly asked: Asked;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (reason: unknown) => void;
}

/**
 * Answers questions together that are asked at the same time: those that come in one turn of the event loop, and then all that came
 * while those were answered. Questions about different subjects do not wait for one another.
 */
export class Rounds<Asked, Answer> {
  readonly #answerAll: AnswerAll<Asked, Answer>;
  /** What waits for the next round, of each subject that has one under way. */
  readonly #waiting = new Map<string, Waiting<Asked, Answer>[]>();

  constructor(answerAll: AnswerAll<Asked, Answer>) {
    this.#answerAll = answerAll;
  }

  /** Resolves with an answer that was looked for only after this call: within the round under way and one more. */
  ask(subject: string, asked: Asked): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const one = { asked, resolve, reject };
      const waiting = this.#waiting.get(subject);
      if (waiting !== undefined) {
        waiting.push(one);
        return;
      }
      this.#waiting.set(subject, [one]);
      void this.#run(subject);
    });
  }

  async #run(subject: string): Promise<void> {
    await nextTurn();
    for (;;) {
      const round = this.#waiting.get(subject)!;
      if (round.length === 0) break;
      this.#waiting.set(subject, []);
      try {
        const asked = round.map((one) => one.asked);
        const answers = await this.#answerAll(subject, asked);
        for (const [index, one] of round.entries()) one.resolve(answers[index]!);
      } catch (error) {
        for (const one of round) one.reject(error);
      }
    }
    this.#waiting.delete(subject);
  }
}
