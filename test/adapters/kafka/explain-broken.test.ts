import { expect, test } from "vitest";
import { explainBroken } from "../../../src/adapters/kafka/consume/explain-broken.ts";

test("regression: a consumer that meets a compression it cannot read says which setting to mend: it said that ZSTD is not implemented, of no topic", () => {
  const error = new Error("ZSTD compression not implemented");
  error.name = "KafkaJSNotImplemented";
  expect(explainBroken("relay.", error).message).toMatch(
    /^ZSTD compression not implemented: set compression\.type of the topics that begin with relay\. to producer; .*kafka-delete-records\.sh/,
  );
});
