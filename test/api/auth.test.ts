import { expect, it } from "vitest";
import { authenticate } from "../../src/api/auth.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import { makeAuthenticate } from "../../src/management/authenticate.ts";
import { SimClock } from "../support/sim-clock.ts";

it.each([16, 256, 257, 512])(
  "a key of %i characters, which the configuration takes, is one to the API as well",
  async (length) => {
    const key = loadConfig({ RELAY_BOOTSTRAP_API_KEY: "k".repeat(length) }).bootstrap.apiKey!;
    const keys = {
      findKey: async () => ({
        id: "key_1",
        orgId: "org_1",
        publicPart: "",
        scopes: ["read"] as const,
        createdAtMs: 0,
        revokedAtMs: null,
      }),
    };
    const management = { authenticate: makeAuthenticate(keys, new SimClock()) };
    expect(await authenticate(`Bearer ${key}`, management)).toMatchObject({ keyId: "key_1" });
  },
);
