import { expect, it } from "vitest";
import { explainListenError } from "../../src/domain/listen-error.ts";

it.each([
  ["EADDRINUSE", "port 80 is in use: set RELAY_API_PORT to a free port"],
  ["EACCES", "port 80 needs more rights (EACCES): set RELAY_API_PORT to a port above 1023"],
  ["EADDRNOTAVAIL", "host 10.0.0.1 cannot be listened on (EADDRNOTAVAIL): set RELAY_API_HOST"],
])("an address that cannot be listened on (%s) says what to set", (code, message) => {
  const error = Object.assign(new Error("listen failed"), { code });
  const address = { host: "10.0.0.1", port: 80, variable: "RELAY_API_PORT" };
  expect(explainListenError(error, address).message).toContain(message);
});

it("only the port of the ingest is said to be one that can be shared", () => {
  const error = Object.assign(new Error("listen failed"), { code: "EADDRINUSE" });
  const of = (variable: string): string =>
    explainListenError(error, { host: "0.0.0.0", port: 80, variable }).message;
  expect(of("RELAY_INGEST_PORT")).toMatch(
    /, or set RELAY_INGEST_SHARE_PORT=true in every process that is to share it$/,
  );
  expect(of("RELAY_API_PORT")).not.toContain("SHARE");
});
