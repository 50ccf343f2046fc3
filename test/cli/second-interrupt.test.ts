import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { makeRelayProcess } from "../support/relay-process.ts";
import { waitFor } from "../support/wait-for.ts";

const AGAIN_MS = 1_100;
/** As long after the terminal's signal as that of a busy npm. */
const SAME_MS = 300;
/** A program that ends at once has by then. */
const ENDS_AT_ONCE_MS = 3_000;

test("a second Ctrl-C ends at once what the first one is still stopping: it was waited for, up to half a minute, however often it was pressed", async () => {
  const sockets = new Set<Socket>();
  // Never answers: a start that waits for it is abandoned after 28 s.
  const silent = createServer((socket) => void sockets.add(socket.on("error", () => {})));
  silent.listen(0, "127.0.0.1");
  await once(silent, "listening");
  const { port } = silent.address() as AddressInfo;
  await using relay = await makeRelayProcess({
    CLICKHOUSE_URL: `http://127.0.0.1:${port}/relay`,
  });
  const started = relay.start().catch(() => "ended");
  await waitFor("its first question", () => sockets.size > 0);
  const pid = relay.pid();
  const ended = relay.kill("SIGINT");
  await waitFor("the first signal", () => relay.output().includes("relay.stopping"));
  // Signals from npm and the terminal at nearly the same time count as one Ctrl-C.
  await delay(SAME_MS);
  process.kill(pid, "SIGINT");
  expect(await Promise.race([ended, delay(ENDS_AT_ONCE_MS, "waits")])).toBe("waits");
  while ((await Promise.race([ended, delay(AGAIN_MS, "waits")])) === "waits")
    process.kill(pid, "SIGINT");
  expect(await ended).toBe(130);
  expect(await started).toBe("ended");
  for (const socket of sockets) socket.destroy();
  silent.close();
}, 60_000);
