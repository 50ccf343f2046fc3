// What a user would write first: node:http, a signature check, and one INSERT into PostgreSQL per request.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Pool } from "pg";
import { reportUsageOnRequest } from "../lib/report-usage.ts";
import { benchSecret } from "../lib/stripe-requests.ts";

const pool = new Pool({ connectionString: process.argv[2] ?? "", max: 20 });
await pool.query(
  "CREATE TABLE IF NOT EXISTS webhooks (id bigserial PRIMARY KEY, endpoint text, headers jsonb, body bytea, received_at timestamptz DEFAULT now())",
);

const server = createServer((request, response) => {
  const parts: Buffer[] = [];
  request.on("data", (part: Buffer) => parts.push(part));
  request.on("end", () => {
    void take(request.url ?? "", request.headers, Buffer.concat(parts)).then((status) => {
      const answer = `{"ok":${status === 200}}`;
      response.writeHead(status, {
        "content-type": "application/json",
        "content-length": answer.length,
      });
      response.end(answer);
    });
  });
});

async function take(path: string, headers: object, body: Buffer): Promise<number> {
  const [, timestamp = "", signature = ""] =
    /^t=(\d+),v1=([0-9a-f]{64})$/.exec(
      String((headers as { "stripe-signature"?: string })["stripe-signature"]),
    ) ?? [];
  const secret = benchSecret(Number(path.slice(-21)));
  const digest = createHmac("sha256", secret).update(`${timestamp}.`).update(body).digest();
  const given = Buffer.from(signature, "hex");
  if (given.length !== digest.length || !timingSafeEqual(given, digest)) return 401;
  await pool.query("INSERT INTO webhooks (endpoint, headers, body) VALUES ($1, $2, $3)", [
    path,
    JSON.stringify(headers),
    body,
  ]);
  return 200;
}

server.listen(0, "127.0.0.1", () => {
  process.send?.({ port: (server.address() as AddressInfo).port });
});
reportUsageOnRequest();
process.once("SIGTERM", () => process.exit(0));
