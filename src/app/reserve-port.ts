import { createServer, type AddressInfo } from "node:net";

/** A port that is free now. Somebody else may take it before it is used: for tests and the demo only. */
export async function reservePort(host: string): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, host, resolve);
  });
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
