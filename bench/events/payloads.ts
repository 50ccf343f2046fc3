import type { Provider } from "../../src/domain/enums.ts";
import type { HeaderList } from "../../src/domain/event.ts";
import type { SeededRandom } from "./random.ts";

const BASE62 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const HEX = "0123456789abcdef";
const WORDS =
  "the order was placed by a customer who asked for express shipping and gift wrapping please confirm stock before friday because our team must update the invoice after review of each item in this release we fix several bugs improve performance add tests for retries document limits and remove old flags from configuration thanks to everyone".split(
    " ",
  );
const NAMES =
  "Ada Grace Linus Margaret Alan Barbara Dennis Radia Tim Frances Edsger Hedy Kurt Sofia Emmy Niels".split(
    " ",
  );
const TYPES: Readonly<Record<Provider, readonly string[]>> = {
  stripe: [
    "invoice.paid",
    "invoice.payment_failed",
    "charge.succeeded",
    "customer.updated",
    "payment_intent.succeeded",
  ],
  github: ["push", "pull_request", "issues", "check_run", "workflow_job"],
  shopify: ["orders/create", "orders/updated", "products/update", "fulfillments/create"],
  linear: ["Issue", "Comment", "Project"],
  twilio: ["message-status"],
  custom: ["user.created", "job.finished", "sensor.reading"],
};

/** Words to search for, found in about 1 in 2, 1 in 100 and 1 in 100,000 events. */
export const COMMON_WORD = "customer";
export const SELDOM_WORD = "refund-requested";
export const RARE_WORD = "zebra-crossing";

export interface Payload {
  readonly body: Buffer;
  readonly contentType: string;
  readonly headers: HeaderList;
}

/**
 * Makes a payload in the style of its provider: identifiers, times, amounts, prose, nested objects and lists; half a
 * kilobyte to twenty, most around two.
 */
export function makePayload(
  random: SeededRandom,
  provider: Provider,
  payloadBytes?: number,
): Payload {
  const targetBytes =
    payloadBytes ?? Math.min(20_000, 500 + Math.floor(-Math.log(1 - random.unit()) * 2_200));
  const type = random.pick(TYPES[provider]);
  const id = `${provider.slice(0, 3)}_${random.text(24, BASE62)}`;
  if (provider === "twilio") return twilioForm(random, id);
  const object: Record<string, unknown> = {
    id,
    object: "event",
    type,
    api_version: "2026-03-25",
    created: 1_790_000_000 + random.below(2_000_000),
    livemode: true,
    data: {
      object: {
        id: `obj_${random.text(24, BASE62)}`,
        currency: random.pick(["usd", "eur", "gbp"]),
      },
    },
  };
  const items: unknown[] = [];
  object["items"] = items;
  let sizeBytes = 260;
  while (sizeBytes < targetBytes - 60) {
    const item = makeItem(random, items.length);
    items.push(item);
    sizeBytes += JSON.stringify(item).length + 1;
    if (payloadBytes !== undefined) break;
  }
  const luck = random.unit();
  if (luck < 0.00001) object["note"] = RARE_WORD;
  else if (luck < 0.01) object["note"] = SELDOM_WORD;
  else if (luck < 0.5) object["kind"] = COMMON_WORD;
  return {
    body: Buffer.from(JSON.stringify(object)),
    contentType: "application/json",
    headers: [
      ["Content-Type", "application/json"],
      ["User-Agent", `${provider}-hooks/1.0`],
      [`X-${provider}-Event`, type],
      [`X-${provider}-Signature`, `t=${random.below(1e9)},v1=${random.text(64, HEX)}`],
      ["X-Request-Id", random.text(32, HEX)],
      ["Host", "hooks.relay.example"],
      ["Accept", "*/*"],
    ],
  };
}

function makeItem(random: SeededRandom, index: number): unknown {
  const person = random.pick(NAMES);
  const prose = Array.from({ length: 6 + random.below(20) }, () => random.pick(WORDS)).join(" ");
  switch (random.below(4)) {
    case 0:
      return {
        id: `li_${random.text(14, BASE62)}`,
        amount: random.below(100_000),
        quantity: 1 + random.below(5),
        description: prose,
        price: {
          id: `price_${random.text(14, BASE62)}`,
          type: "recurring",
          unit_amount: random.below(9_999),
        },
      };
    case 1:
      return {
        sha: random.text(40, HEX),
        message: prose,
        url: `https://api.example.com/repos/acme/shop/commits/${random.text(40, HEX)}`,
        author: {
          name: person,
          email: `${person.toLowerCase()}${random.below(5_000)}@example.com`,
        },
        added: [`src/${random.pick(WORDS)}/${random.pick(WORDS)}.ts`],
        removed: [],
      };
    case 2:
      return {
        sku: `SKU-${random.below(20_000)}`,
        title: prose.slice(0, 60),
        price: (random.below(100_000) / 100).toFixed(2),
        vendor: person,
        taxable: true,
        requires_shipping: random.unit() < 0.8,
        fulfillment_status: null,
        tax_lines: [{ title: "VAT", rate: 0.19, price: (random.below(10_000) / 100).toFixed(2) }],
      };
    default:
      return {
        position: index,
        state: random.pick(["open", "closed", "pending", "in_progress"]),
        assignee: {
          name: person,
          email: `${person.toLowerCase()}${random.below(5_000)}@example.com`,
        },
        updated_at: new Date(1_790_000_000_000 + random.below(2_000_000_000)).toISOString(),
        body: prose,
        labels: [random.pick(WORDS), random.pick(WORDS)],
      };
  }
}

function twilioForm(random: SeededRandom, id: string): Payload {
  const fields = new URLSearchParams({
    MessageSid: `SM${random.text(32, HEX)}`,
    AccountSid: `AC${random.text(32, HEX)}`,
    From: `+1555${String(random.below(10_000_000)).padStart(7, "0")}`,
    To: "+15005550006",
    Body: Array.from({ length: 8 + random.below(20) }, () => random.pick(WORDS)).join(" "),
    NumMedia: "0",
    SmsStatus: random.pick(["received", "sent", "delivered"]),
    ApiVersion: "2010-04-01",
    Reference: id,
  });
  return {
    body: Buffer.from(fields.toString()),
    contentType: "application/x-www-form-urlencoded",
    headers: [
      ["Content-Type", "application/x-www-form-urlencoded"],
      ["User-Agent", "TwilioProxy/1.1"],
      ["X-Twilio-Signature", `${random.text(27, BASE62)}=`],
      ["I-Twilio-Idempotency-Token", random.text(36, HEX)],
      ["Host", "hooks.relay.example"],
    ],
  };
}
