import { test } from "vitest";
import { TOPICS } from "../../../src/domain/log.ts";
import { PlayedCluster } from "../../support/played-cluster.ts";
import { openPlayedLog } from "../../support/played-log.ts";
import { waitFor } from "../../support/wait-for.ts";

/** More than two timeouts of 3 s for requests to the frozen broker, but less than half a minute. */
const LEARNT_WITHIN_MS = 25_000;

test("regression: the log learns of new partitions soon after a frozen broker is out of the cluster: it waited half a minute for what that one was asked before", async () => {
  await using cluster = await PlayedCluster.start(3, TOPICS);
  await using log = await openPlayedLog(cluster, { metadataMaxAgeMs: 500 });
  const [frozen] = cluster.nodes;
  frozen!.state = "frozen";
  await waitFor("a question to it", () => frozen!.unanswered > 0);
  frozen!.isFenced = true;
  cluster.partitionCount = 4;
  await waitFor("the new partitions", () => log.partitions === 4, LEARNT_WITHIN_MS);
});
