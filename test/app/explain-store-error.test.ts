import { expect, it } from "vitest";
import {
  explainStoreError,
  nameClickHouse,
  namePostgres,
  namingStore,
} from "../../src/app/explain-store-error.ts";
import { RelayError, UsageError } from "../../src/domain/errors.ts";

const DATABASE_URL = "postgresql://u:CANARY@db:5432/relay";

function failing(error: Error): Promise<unknown> {
  const part = { name: "configuration", start: () => Promise.reject(error) };
  return namingStore(namePostgres({ databaseUrl: DATABASE_URL }), part)
    .start(() => {})
    .catch((thrown: unknown) => thrown);
}

it("a part that fails names its store, and what that said: whose password was wrong was not told", async () => {
  const cause = Object.assign(new Error("password authentication failed for user u"), {
    code: "28P01",
  });
  const told = await failing(
    new RelayError("unavailable", "The configuration store cannot be reached; try again.", {
      cause,
    }),
  );
  expect(told).toMatchObject({
    message:
      "PostgreSQL at postgresql://db:5432/relay failed: password authentication failed for user u",
  });
  const usage = new UsageError("set RELAY_ENCRYPTION_KEY");
  expect(await failing(usage)).toBe(usage);
});

it("names ClickHouse without credentials, and the embedded stores", () => {
  const store = nameClickHouse({ clickhouseUrl: "http://u:CANARY@ch:8123/nodb" });
  expect(explainStoreError(store, new Error("Database nodb does not exist. "))).toMatchObject({
    message: "ClickHouse at http://ch:8123/nodb failed: Database nodb does not exist.",
  });
  expect(nameClickHouse({ clickhouseUrl: null })).toBe("the embedded ClickHouse");
  expect(namePostgres({ databaseUrl: null })).toBe("the embedded PostgreSQL");
});

it.each([
  [
    "ERR_TLS_CERT_ALTNAME_INVALID",
    "Hostname/IP does not match certificate's altnames",
    "failed: Hostname/IP does not match certificate's altnames",
  ],
  [
    "EPROTO",
    "write EPROTO 80:error:0A00010B:SSL routines:ssl3_get_record:wrong version number",
    "failed: write EPROTO 80:error:0A00010B:SSL routines:ssl3_get_record:wrong version number: it may speak no TLS at this port",
  ],
  [
    "SELF_SIGNED_CERT_IN_CHAIN",
    "self-signed certificate in certificate chain",
    "failed: self-signed certificate in certificate chain: trust its authority with NODE_EXTRA_CA_CERTS=/path/ca.pem",
  ],
  ["ECONNREFUSED", "connect ECONNREFUSED 127.0.0.1:1", "cannot be reached (ECONNREFUSED)"],
])(
  "regression: says why TLS failed (%s), and what to do: a server with a wrong certificate could not be reached",
  (code, message, told) => {
    const error = Object.assign(new Error(message), { code });
    expect(explainStoreError("ClickHouse at https://ch/relay", error).message).toBe(
      `ClickHouse at https://ch/relay ${told}`,
    );
  },
);
