import { describe, expect, it } from "vitest";
import { RunLedger } from "../../../src/pipeline/deliver/recovery/run-ledger.ts";

const first = { tryNumber: 1, deferrals: 0 };
const again = { tryNumber: 1, deferrals: 2 };
const retry = { tryNumber: 2, deferrals: 0, dueAtMs: 5 };

describe("run ledger", () => {
  it("knows the end of a run for copies that were put off or held meanwhile", () => {
    const ledger = new RunLedger();
    ledger.noteEnd("run", first, null);
    expect(ledger.judge("run", again).kind).toBe("superseded");
    expect(ledger.judge("run", retry).kind).toBe("superseded");
  });

  it("lets the end of a run stand whatever a second copy of it came to", () => {
    const ledger = new RunLedger();
    ledger.noteEnd("run", first, null);
    ledger.noteEnd("run", again, retry);
    ledger.noteWaiting("run", retry);
    expect(ledger.judge("run", retry).kind).toBe("superseded");
    const late = new RunLedger();
    late.noteEnd("run", again, retry);
    late.noteEnd("run", first, null);
    expect(late.judge("run", again).kind).toBe("superseded");
  });

  it("of one step knows the last end, as the store does, but for one that is older than what was noted", () => {
    const ledger = new RunLedger();
    ledger.noteEnd("run", first, null);
    ledger.noteEnd("run", first, retry);
    expect(ledger.judge("run", first)).toEqual({ kind: "follow_up", followUp: retry });
    ledger.noteEarlierEnd("run", first, null);
    expect(ledger.judge("run", first).kind).toBe("follow_up");
    ledger.noteEarlierEnd("other", first, null);
    expect(ledger.judge("other", first).kind).toBe("superseded");
  });

  it("regression: of one step the try stands, in whatever order it is noted beside that the next owner put it off: the run went on though its row says that it was delivered", () => {
    const putOff = { ...first, deferrals: 1, dueAtMs: 7 };
    const ledger = new RunLedger();
    ledger.noteEnd("run", first, null);
    ledger.noteEnd("run", first, putOff);
    expect(ledger.judge("run", putOff).kind).toBe("superseded");
    ledger.noteEnd("late", first, putOff);
    expect(ledger.judge("late", first)).toEqual({ kind: "follow_up", followUp: putOff });
    ledger.noteEarlierEnd("late", first, null);
    expect(ledger.judge("late", putOff).kind).toBe("superseded");
    ledger.noteEnd("failed", first, retry);
    ledger.noteEnd("failed", first, putOff);
    expect(ledger.judge("failed", putOff)).toEqual({ kind: "follow_up", followUp: retry });
  });

  it("of two deferrals of one step knows the last: its row says when the try is made", () => {
    const sooner = { ...first, deferrals: 1, dueAtMs: 7 };
    const later = { ...sooner, dueAtMs: 9 };
    const ledger = new RunLedger();
    ledger.noteEnd("run", first, sooner);
    ledger.noteEnd("run", first, later);
    expect(ledger.judge("run", first)).toEqual({ kind: "follow_up", followUp: later });
    expect(ledger.judge("run", later)).toEqual({ kind: "go", notBeforeMs: 9 });
  });

  it("learns of a later step from another owner's end, and nothing from that of an earlier one", () => {
    const ledger = new RunLedger();
    ledger.noteEnd("run", first, retry);
    ledger.noteEarlierEnd("run", retry, null);
    expect(ledger.judge("run", retry).kind).toBe("superseded");
    const next = { ...retry, tryNumber: 3 };
    ledger.noteEnd("ahead", retry, next);
    ledger.noteEarlierEnd("ahead", first, retry);
    expect(ledger.judge("ahead", retry)).toEqual({ kind: "follow_up", followUp: next });
  });

  it("knows the latest of the tasks that wait, in whatever order the tiers are read", () => {
    const ledger = new RunLedger();
    ledger.noteWaiting("run", retry);
    ledger.noteWaiting("run", again);
    expect(ledger.judge("run", again).kind).toBe("superseded");
    expect(ledger.judge("run", retry).kind).toBe("go");
  });

  it("takes over what another ledger knows, and empties it", () => {
    const [ledger, other] = [new RunLedger(), new RunLedger()];
    ledger.noteEnd("known", again, retry);
    other.noteEnd("known", first, retry);
    other.noteEnd("ended", first, null);
    other.noteWaiting("waiting", retry);
    ledger.absorb(other);
    expect(ledger.judge("known", again).kind).toBe("follow_up");
    expect(ledger.judge("ended", retry).kind).toBe("superseded");
    expect(ledger.judge("waiting", first).kind).toBe("superseded");
    expect(other.size).toBe(0);
  });

  it("forgets the runs noted longest ago, in the order they came: from the 100,000th on, each new one cost a tenth of a millisecond", () => {
    const ledger = new RunLedger(3);
    for (const key of ["one", "two", "three", "one", "four", "five"])
      ledger.noteEnd(key, first, null);
    expect(ledger.size).toBe(3);
    const verdicts = ["one", "two", "three", "four", "five"].map(
      (key) => ledger.judge(key, first).kind,
    );
    expect(verdicts).toEqual(["go", "go", "superseded", "superseded", "superseded"]);
    const [bounded, other] = [new RunLedger(2), new RunLedger()];
    for (const key of ["one", "two", "three"]) other.noteWaiting(key, retry);
    bounded.absorb(other);
    expect(bounded.judge("one", first).kind).toBe("go");
    expect(bounded.judge("three", first).kind).toBe("superseded");
  });

  it("lets no copy of a try that was put off go on before the time it was put off to", () => {
    const ledger = new RunLedger();
    const putOff = { tryNumber: 1, deferrals: 1, dueAtMs: 5_000 };
    ledger.noteEnd("run", first, putOff);
    const copy = { tryNumber: 1, deferrals: 1 };
    expect(ledger.judge("run", copy)).toEqual({ kind: "go", notBeforeMs: 5_000 });
    expect(ledger.judge("run", { tryNumber: 1, deferrals: 2 })).toEqual({
      kind: "go",
      notBeforeMs: 0,
    });
    expect(ledger.judge("other", copy)).toEqual({ kind: "go", notBeforeMs: 0 });
  });

  // Simulation seed 31692: a delay tier still held the copy that was put off once more, and published it after the retry.
  it("of two copies of a try that were put off differently knows the second one to be over once the first was made", () => {
    const ledger = new RunLedger();
    ledger.noteEnd("run", again, retry);
    const putOffOnceMore = { tryNumber: 1, deferrals: 3 };
    expect(ledger.judge("run", putOffOnceMore)).toEqual({ kind: "follow_up", followUp: retry });
    ledger.noteWaiting("run", retry);
    expect(ledger.judge("run", putOffOnceMore).kind).toBe("superseded");
    expect(ledger.judge("run", retry)).toEqual({ kind: "go", notBeforeMs: 5 });
  });

  it("asks for the follow-up that is not durable, once", () => {
    const ledger = new RunLedger();
    ledger.noteEnd("run", first, retry);
    expect(ledger.judge("run", first)).toEqual({ kind: "follow_up", followUp: retry });
    ledger.noteWaiting("run", retry);
    expect(ledger.judge("run", first).kind).toBe("superseded");
    expect(ledger.judge("run", retry).kind).toBe("go");
  });
});
