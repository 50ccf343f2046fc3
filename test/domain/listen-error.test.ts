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
