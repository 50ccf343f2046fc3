import { EventEmitter } from "node:events";
import type { ServerResponse } from "node:http";
import { describe, expect, it } from "vitest";
import { UnsentAnswers } from "../../src/api/unsent-answers.ts";

/** An answer of which this much has not been sent. */
class Answer extends EventEmitter {
  writableLength: number;
  destroyed = false;
  writableFinished = false;

  constructor(sizeBytes: number) {
    super();
    this.writableLength = sizeBytes;
  }

  destroy(): void {
    this.destroyed = true;
    this.emit("close");
  }

  finish(): void {
    this.writableFinished = true;
    this.emit("close");
  }
}

function makeUnsent(maxBytes: number) {
  const unsent = new UnsentAnswers(maxBytes);
  return (caller: string, sizeBytes: number, over: Partial<Answer> = {}): Answer => {
    const answer = Object.assign(new Answer(sizeBytes), over);
    unsent.note(answer as unknown as ServerResponse, caller);
    return answer;
  };
}

describe("answers that wait to be read", () => {
  it("count until they are closed: every later one would be cut off", () => {
    const note = makeUnsent(100);
    for (let round = 0; round < 10; round += 1) {
      note("a", 60).finish();
      note("b", 60).destroy();
    }
    const last = note("a", 100);
    expect(last.destroyed).toBe(false);
    expect(note("b", 1).destroyed).toBe(false);
    expect(last.destroyed).toBe(true);
  });

  it("count only where they wait: one that is closed already does not close again", () => {
    const note = makeUnsent(100);
    const waiting = note("a", 90);
    note("b", 60, { destroyed: true });
    note("b", 60, { writableFinished: true });
    note("b", 0);
    expect(waiting.destroyed).toBe(false);
  });

  it("are cut off oldest first, of the caller who has most in all, until the rest fits", () => {
    const note = makeUnsent(100);
    const quiet = note("quiet", 39);
    const greedy = [note("greedy", 20), note("greedy", 20), note("greedy", 20)];
    expect(greedy.map(({ destroyed }) => destroyed)).toEqual([false, false, false]);
    const late = note("late", 35);
    expect(greedy.map(({ destroyed }) => destroyed)).toEqual([true, true, false]);
    expect([quiet.destroyed, late.destroyed]).toEqual([false, false]);
  });
});
