import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { Agent, request } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeRelayProcess, TEST_KEY, type RelayProcess } from "../support/relay-process.ts";
import { openSlowConnections, slowSenders } from "../support/slow-connections.ts";
import { waitFor } from "../support/wait-for.ts";

const SLOW = 5_000;
const SLOW_ON_API = 200;
/** How long, at least, honest requests go on beside the slow ones: more than the 10 s after which slow ones are closed. */
const ATTACK_MS = 14_000;
/** On a slow machine it takes longer for slow connections to be closed and reopened. */
const MAX_ATTACK_MS = 90_000;
const HONEST_PAUSE_MS = 50;
/** Even one request a second from each of the nine senders, which would be slow, exceeds this. */
const HONEST_AT_LEAST = 100;
/** Generous: the machine is loaded by 5,000 senders and by other tests. */
const ANSWER_DEADLINE_MS = 15_000;

/** Returns how many files this process may open, the senders' sockets among them. */
function maxOpenFiles(): number {
  return Number(/^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "latin1"))?.[1]);
}

const slow = Math.min(SLOW, maxOpenFiles() - 500);

describe.each([
  { openFiles: 256, newConnections: false },
  { openFiles: Math.min(65_536, maxOpenFiles()), newConnections: true },
])(
  `${slow} slow connections to a relay that may open $openFiles files`,
  ({ openFiles, newConnections }) => {
    let relay: RelayProcess;
    let ingestUrl: string;
    let accepted = 0;
    beforeAll(async () => {
      relay = await makeRelayProcess({}, [], { openFiles });
      await relay.start();
      const project = await relay.client.projects.create({ name: "Slow" });
      const endpoint = await relay.client.endpoints.create(project.id, {
        name: "Open",
        provider: "custom",
        verification_method: "none",
      });
      ingestUrl = endpoint.url;
      await waitFor("the endpoint", async () => (await post(null)) === 200 || null, 15_000);
    });
    afterAll(() => relay[Symbol.asyncDispose]());

    async function post(agent: Agent | null): Promise<number> {
      const answer = await request(ingestUrl, {
        method: "POST",
        body: '{"honest":true}',
        headersTimeout: ANSWER_DEADLINE_MS,
        ...(agent === null ? { reset: true } : { dispatcher: agent }),
      });
      await answer.body.dump();
      if (answer.statusCode === 200) accepted += 1;
      return answer.statusCode;
    }

    async function askApi(agent: Agent): Promise<number> {
      const answer = await request(`http://127.0.0.1:${relay.ports.api}/projects`, {
        headers: { authorization: `Bearer ${TEST_KEY}` },
        dispatcher: agent,
        headersTimeout: ANSWER_DEADLINE_MS,
      });
      await answer.body.dump();
      return answer.statusCode;
    }

    const title = "go on while honest requests are answered, and never use up the file descriptors";
    it(title, { timeout: 150_000 }, async () => {
      const agents = Array.from({ length: 8 }, () => new Agent({ connections: 1 }));
      const apiAgent = new Agent({ connections: 1 });
      await Promise.all([...agents.map(post), askApi(apiAgent)]);
      const pid = relay.pid();
      const statuses: number[] = [];
      let maxFiles = 0;
      {
        const { ingest, api } = relay.ports;
        const path = new URL(ingestUrl).pathname;
        await using slowOnes = openSlowConnections({
          port: ingest,
          count: slow,
          senders: slowSenders(path),
        });
        await using slowOnApi = openSlowConnections({
          port: api,
          count: SLOW_ON_API,
          senders: slowSenders("/projects"),
        });
        const startedMs = performance.now();
        const isOver = (): boolean => {
          const forMs = performance.now() - startedMs;
          if (forMs > MAX_ATTACK_MS) return true;
          // Some slow connections were cut off and came back, and enough honest requests were made meanwhile.
          return (
            forMs > ATTACK_MS &&
            slowOnes.opened() >= slow &&
            slowOnApi.opened() > SLOW_ON_API &&
            statuses.length > HONEST_AT_LEAST
          );
        };
        const honest = [
          ...agents.map((agent) => () => post(agent)),
          () => askApi(apiAgent),
          ...(newConnections ? [() => post(null)] : []),
        ];
        await Promise.all(
          honest.map(async (ask) => {
            while (!isOver()) {
              statuses.push(await ask());
              maxFiles = Math.max(maxFiles, readdirSync(`/proc/${pid}/fd`).length);
              await delay(HONEST_PAUSE_MS);
            }
          }),
        );
        expect(slowOnes.opened()).toBeGreaterThanOrEqual(slow);
        expect(slowOnApi.opened()).toBeGreaterThan(SLOW_ON_API);
      }
      expect(statuses.length).toBeGreaterThan(HONEST_AT_LEAST);
      expect(statuses.filter((status) => status !== 200)).toEqual([]);
      expect(maxFiles).toBeLessThan(openFiles);
      await Promise.all([...agents, apiAgent].map(async (agent) => agent.destroy()));
    });

    it("leave no trace: new connections are answered, all that was accepted is there, the process is the same", async () => {
      await waitFor(
        "an answer on a new connection",
        async () => (await post(null).catch(() => 0)) === 200 || null,
        30_000,
      );
      await waitFor(
        "all accepted events",
        async () => {
          const { pagination } = await relay.client.events.search({ limit: 1 });
          return pagination.total >= accepted || null;
        },
        30_000,
      );
      expect(relay.output()).not.toContain("EMFILE");
    });
  },
);
