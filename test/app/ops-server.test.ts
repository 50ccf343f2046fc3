import { once } from "node:events";
import { connect } from "node:net";
import { describe, expect, it } from "vitest";
import { startOpsServer } from "../../src/app/ops-server.ts";
import { UsageError } from "../../src/domain/errors.ts";

const PORTS = {
  metrics: async () => ({ contentType: "text/plain; version=0.0.4", text: "relay_up 1\n" }),
  readiness: async () => ({ ready: false, parts: [{ name: "clickhouse", state: "restarting" }] }),
};

describe("the operations server", () => {
  it("serves metrics, liveness and readiness", async () => {
    await using server = await startOpsServer({ host: "127.0.0.1", port: 0, ...PORTS });
    const get = (path: string) => fetch(`http://127.0.0.1:${server.port}${path}`);
    expect(await (await get("/metrics")).text()).toBe("relay_up 1\n");
    expect((await get("/healthz?probe=1")).status).toBe(200);
    const ready = await get("/readyz");
    expect(ready.status).toBe(503);
    expect(await ready.json()).toEqual({
      status: "not ready",
      parts: [{ name: "clickhouse", state: "restarting" }],
    });
    expect((await get("/nothing")).status).toBe(404);
  });

  it("answers 500 when a reading fails, and lives", async () => {
    await using server = await startOpsServer({
      host: "127.0.0.1",
      port: 0,
      ...PORTS,
      metrics: () => Promise.reject(new Error("no registry")),
    });
    expect((await fetch(`http://127.0.0.1:${server.port}/metrics`)).status).toBe(500);
    expect((await fetch(`http://127.0.0.1:${server.port}/healthz`)).status).toBe(200);
  });

  it("ends though a reading never does: whoever scrapes would hold up the end of the relay", async () => {
    let isAsked = (): void => {};
    const asked = new Promise<void>((resolve) => (isAsked = resolve));
    const metrics = (): Promise<never> => {
      isAsked();
      return new Promise(() => {});
    };
    const server = await startOpsServer({ host: "127.0.0.1", port: 0, ...PORTS, metrics });
    const scraped = fetch(`http://127.0.0.1:${server.port}/metrics`);
    const isCut = expect(scraped).rejects.toThrow("fetch failed");
    await asked;
    await server[Symbol.asyncDispose]();
    await isCut;
  });

  it("holds a bounded number of connections, and closes those that ask for nothing: they took every file descriptor of the process", async () => {
    const options = { host: "127.0.0.1", port: 0, maxConnections: 4, ...PORTS };
    await using server = await startOpsServer(options);
    const open = async () => {
      const socket = connect(server.port, "127.0.0.1").resume();
      const closed = once(socket, "close");
      await once(socket, "connect");
      return { socket, closed };
    };
    const held = await Promise.all(Array.from({ length: 4 }, open));
    const refused = await Promise.all(Array.from({ length: 8 }, open));
    await Promise.all(refused.map(({ closed }) => closed));
    expect(held.map(({ socket }) => socket.destroyed)).toEqual([false, false, false, false]);
    await Promise.all(held.map(({ closed }) => closed));
    expect((await fetch(`http://127.0.0.1:${server.port}/healthz`)).status).toBe(200);
  });

  it("says in one line which variable to set when its port is taken", async () => {
    await using first = await startOpsServer({ host: "127.0.0.1", port: 0, ...PORTS });
    await expect(startOpsServer({ host: "127.0.0.1", port: first.port, ...PORTS })).rejects.toThrow(
      UsageError,
    );
    await expect(startOpsServer({ host: "127.0.0.1", port: first.port, ...PORTS })).rejects.toThrow(
      /RELAY_OPS_PORT/,
    );
  });
});
