import { expect, test } from "vitest";
import { openConfigStore } from "../../src/app/open-config-store.ts";
import { makeSystemClock } from "../../src/app/system-clock.ts";
import { UsageError } from "../../src/domain/errors.ts";
import { makeSilentLogger } from "../support/silent-logger.ts";

test.each(["sslrootcert", "sslcert", "sslkey"])(
  "a %s that cannot be read is named at start: the relay waited for a server that could not be reached",
  async (parameter) => {
    const opening = openConfigStore({
      databaseUrl: `postgresql://u:CANARY@127.0.0.1:1/db?sslmode=verify-full&${parameter}=/no/such.pem`,
      dataDir: "/no/such/directory",
      embeddedMode: "serve",
      templateFile: null,
      clock: makeSystemClock(),
      logger: makeSilentLogger(),
    });
    const refusal: unknown = await opening.catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(UsageError);
    expect((refusal as Error).message).toBe(
      `DATABASE_URL has ${parameter}=/no/such.pem, which cannot be read (ENOENT): name a PEM file that this user may read`,
    );
  },
);
