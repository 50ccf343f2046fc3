import { describe, expect, it } from "vitest";
import { forwardedHeaders } from "../../../src/pipeline/deliver/try/forwarded-headers.ts";
import {
  activeSecrets,
  makeSignedRequest,
} from "../../../src/pipeline/deliver/try/signed-request.ts";
import { firstTry } from "../../../src/domain/delivery-task.ts";
import { signDelivery } from "../../../src/signing/standard-webhooks.ts";
import { SimWorld } from "../../support/sim-world.ts";

const secret = (fill: number): string => `whsec_${Buffer.alloc(32, fill).toString("base64")}`;

describe("forwarded headers", () => {
  it.each([
    "Authorization",
    "Cookie",
    "Host",
    "Content-Length",
    "Connection",
    "Keep-Alive",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
    "Expect",
    "Proxy-Authorization",
    "X-Forwarded-For",
    "Forwarded",
    "Via",
    "X-Real-IP",
    "webhook-id",
    "webhook-signature",
    "X-Relay-Attempt",
    "User-Agent",
  ])("%s never travels on, even when it is called a signature", (name) => {
    expect(forwardedHeaders([[name, "x"]], [name.toLowerCase()], true)).toEqual([]);
  });

  it("passes content and provider headers on under their own names", () => {
    const original = [
      ["Content-Type", "application/json"],
      ["X-GitHub-Event", "push"],
      ["X-Shopify-Topic", "orders/create"],
      ["X-Unknown", "no"],
    ] as const;
    expect(forwardedHeaders(original, [], false)).toEqual(original.slice(0, 3));
  });

  it("regression: passes on one content type, the first, which the relay goes by: receivers went by either", () => {
    const original = [
      ["content-type", "application/json"],
      ["Content-Type", "text/plain"],
    ] as const;
    expect(forwardedHeaders(original, [], false)).toEqual(original.slice(0, 1));
  });

  it("adds the provider's own signature only on request", () => {
    const original = [["X-Hub-Signature-256", "sha256=ab"]] as const;
    expect(forwardedHeaders(original, ["x-hub-signature-256"], false)).toEqual([]);
    expect(forwardedHeaders(original, ["x-hub-signature-256"], true)).toEqual(original);
    expect(forwardedHeaders([["Stripe-Signature", "t=1"]], [], true)).toEqual([]);
  });

  it("a credential of which the log keeps no more than that it was there does not travel on", () => {
    const original = [
      ["X-Webhook-Key", "[redacted]"],
      ["X-Event-Jwt", "Bearer aa.bb.[redacted]"],
      ["X-GitHub-Event", "push"],
    ] as const;
    expect(forwardedHeaders(original, ["x-webhook-key"], true)).toEqual([original[2]]);
  });

  it.each(["X-Webhook-Password", "X-Webhook-Api-Key", "X-Webhook-ApiKey", "X-Event-Credentials"])(
    "%s, a sender's credential, does not travel on with the provider's headers",
    (name) => {
      const original = [
        [name, "hunter2"],
        ["X-Event-Key", "repo:push"],
      ] as const;
      expect(forwardedHeaders(original, [], true)).toEqual([original[1]]);
    },
  );

  it("a header that Connection names was meant for the next hop and does not travel on", () => {
    const original = [
      ["Connection", "close, X-GitHub-Foo"],
      ["X-GitHub-Foo", "bar"],
      ["X-GitHub-Event", "push"],
      ["x-hub-signature-256", "sha256=ab"],
      ["connection", ",\tX-Hub-Signature-256 ,,"],
    ] as const;
    expect(forwardedHeaders(original, ["x-hub-signature-256"], true)).toEqual([original[2]]);
  });

  it("the content type stays even when Connection names it", () => {
    const original = [
      ["Connection", "Content-Type"],
      ["Content-Type", "application/json"],
    ] as const;
    expect(forwardedHeaders(original, [], false)).toEqual([original[1]]);
  });

  it("drops what no HTTP client may send", () => {
    const original = [
      ["X-GitHub-Event", "a\r\nb"],
      ["X-GitHub-\u0000", "a"],
      ["X-GitHub-Name", "caf\ufffd"],
    ] as const;
    expect(forwardedHeaders(original, [], false)).toEqual([]);
  });

  it("a value beyond ASCII travels on, and does not cost a delivery its content type", () => {
    const original = [
      ["Content-Type", 'text/plain; name="\u4f60\u{1f980}.txt"'],
      ["X-GitHub-Event", "caf\u00e9 push"],
    ] as const;
    expect(forwardedHeaders(original, [], false)).toEqual(original);
  });
});

describe("signed request", () => {
  it("carries the raw body and the contract's headers, signed with each secret of the overlap", () => {
    const world = new SimWorld();
    const config = world.configure("dst_1", {
      secrets: [
        { secret: secret(1), signsUntilMs: null },
        { secret: secret(2), signsUntilMs: 2_000 },
        { secret: secret(3), signsUntilMs: 1_000 },
      ],
    });
    const event = world.makeEvent();
    const task = { ...firstTry(event, "dst_1", event.receivedAtMs), tryNumber: 3 };
    const request = makeSignedRequest(task, config, 1_999, "1.2.3", signDelivery);
    const headers = new Map(request.headers.map(([name, value]) => [name.toLowerCase(), value]));
    expect(request.body).toBe(event.body);
    expect(headers.get("webhook-id")).toBe(event.id);
    expect(headers.get("webhook-timestamp")).toBe("1");
    expect(headers.get("webhook-signature")?.split(" ")).toHaveLength(2);
    expect(headers.get("user-agent")).toBe("webhook-relay/1.2.3");
    expect(headers.get("x-relay-attempt")).toBe("3");
    expect(headers.get("x-relay-trigger")).toBe("event");
    expect(headers.get("x-relay-endpoint-id")).toBe("ep_1");
    expect(headers.get("x-relay-destination-id")).toBe("dst_1");
    expect(headers.get("content-type")).toBe("application/json");
  });

  it("a rotated secret signs until its overlap ends, and not at that moment any more", () => {
    const rotated = { secret: secret(2), signsUntilMs: 2_000 };
    expect(activeSecrets([rotated], 1_999)).toEqual([rotated.secret]);
    expect(activeSecrets([rotated], 2_000)).toEqual([]);
  });

  it("at most three secrets sign", () => {
    const secrets = [1, 2, 3, 4].map((fill) => ({
      secret: secret(fill),
      signsUntilMs: fill === 1 ? null : 10,
    }));
    expect(activeSecrets(secrets, 0)).toHaveLength(3);
  });
});
