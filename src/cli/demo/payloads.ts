import type { KnownProvider } from "../../domain/enums.ts";

/** A webhook as a provider sends it, written for this project from the provider's public documentation. */
export interface SamplePayload {
  readonly provider: KnownProvider;
  readonly contentType: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Returns one realistic payload per known provider. `nowMs` goes where the provider puts its own time. */
export function samplePayloads(nowMs: number): readonly SamplePayload[] {
  return [stripe(nowMs), github(nowMs), shopify(nowMs), twilio(), linear(nowMs)];
}

/** https://docs.stripe.com/api/events/object, type `payment_intent.succeeded` */
function stripe(nowMs: number): SamplePayload {
  const created = Math.floor(nowMs / 1000);
  const body = {
    id: "evt_3QKdemoRelay2eZvKYlo2C0aXr8Zt",
    object: "event",
    api_version: "2025-09-30.clover",
    created,
    data: {
      object: {
        id: "pi_3QKdemoRelay2eZvKYlo2C0a9GmBkP",
        object: "payment_intent",
        amount: 4_200,
        amount_received: 4_200,
        capture_method: "automatic_async",
        created,
        currency: "eur",
        customer: "cus_R5demoHk2vTzQm",
        description: "Order #10482",
        latest_charge: "ch_3QKdemoRelay2eZvKYlo2C0a1mWt9x",
        livemode: false,
        metadata: { order_id: "10482", cart: "b7a1" },
        payment_method_types: ["card"],
        receipt_email: "ada@example.com",
        status: "succeeded",
      },
    },
    livemode: false,
    pending_webhooks: 1,
    request: { id: "req_demo8Vn2kQp", idempotency_key: "0d2c1b9e-5c7e-4e5d-9b8e-9a3f1c2d4e5f" },
    type: "payment_intent.succeeded",
  };
  return {
    provider: "stripe",
    contentType: "application/json; charset=utf-8",
    headers: { "user-agent": "Stripe/1.0 (+https://stripe.com/docs/webhooks)" },
    body: JSON.stringify(body, null, 2),
  };
}

/** https://docs.github.com/en/webhooks/webhook-events-and-payloads#push */
function github(nowMs: number): SamplePayload {
  const head = "6dcb09b5b57875f334f61aebed695e2e4193db5e";
  const body = {
    ref: "refs/heads/main",
    before: "0d1a26e67d8f5eaf1f6ba5c57fc3c7d91ac0fd1c",
    after: head,
    created: false,
    deleted: false,
    forced: false,
    compare: "https://github.com/octo-org/checkout/compare/0d1a26e67d8f...6dcb09b5b578",
    commits: [
      {
        id: head,
        message: "Round totals half to even\n\nFixes the cent that went missing in € carts.",
        timestamp: new Date(nowMs).toISOString(),
        author: { name: "Ada Lovelace", email: "ada@example.com", username: "ada" },
        added: [],
        removed: [],
        modified: ["src/totals.ts", "test/totals.test.ts"],
      },
    ],
    repository: {
      id: 186_853_002,
      name: "checkout",
      full_name: "octo-org/checkout",
      private: true,
      default_branch: "main",
      owner: { login: "octo-org", id: 6_811_672 },
    },
    pusher: { name: "ada", email: "ada@example.com" },
    sender: { login: "ada", id: 583_231, type: "User" },
  };
  return {
    provider: "github",
    contentType: "application/json",
    headers: {
      "user-agent": "GitHub-Hookshot/044aadd",
      "x-github-event": "push",
      "x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
      "x-github-hook-id": "292430182",
    },
    body: JSON.stringify(body),
  };
}

/** https://shopify.dev/docs/api/webhooks, topic `orders/create` */
function shopify(nowMs: number): SamplePayload {
  const at = new Date(nowMs).toISOString();
  const body = {
    id: 820_982_911_946_154_500,
    admin_graphql_api_id: "gid://shopify/Order/820982911946154508",
    created_at: at,
    currency: "USD",
    current_total_price: "398.00",
    email: "jon@example.com",
    financial_status: "paid",
    name: "#9999",
    order_number: 1234,
    line_items: [
      {
        id: 866_550_311_766_439_000,
        sku: "IPOD2008PINK",
        title: "IPod Nano - 8GB",
        quantity: 1,
        price: "199.00",
      },
      {
        id: 141_249_953_214_522_980,
        sku: "IPOD2008GREEN",
        title: "IPod Nano - 8GB",
        quantity: 1,
        price: "199.00",
      },
    ],
    shipping_address: {
      first_name: "Steve",
      last_name: "Shipper",
      city: "Shippington",
      country_code: "US",
      zip: "40003",
    },
    tags: "tag1, tag2",
    test: true,
  };
  return {
    provider: "shopify",
    contentType: "application/json",
    headers: {
      "x-shopify-topic": "orders/create",
      "x-shopify-shop-domain": "demo-goods.myshopify.com",
      "x-shopify-webhook-id": "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043",
      "x-shopify-api-version": "2025-10",
    },
    body: JSON.stringify(body),
  };
}

/** https://www.twilio.com/docs/messaging/guides/webhook-request */
function twilio(): SamplePayload {
  const form = new URLSearchParams({
    ToCountry: "US",
    SmsMessageSid: "SM2b1f0e6d5c4b3a291807f6e5d4c3b2a1",
    NumMedia: "0",
    SmsStatus: "received",
    Body: "Where is my order? Café & co",
    FromCountry: "US",
    To: "+18005551212",
    NumSegments: "1",
    MessageSid: "SM2b1f0e6d5c4b3a291807f6e5d4c3b2a1",
    AccountSid: "AC0123456789abcdef0123456789abcdef",
    From: "+14158675310",
    ApiVersion: "2010-04-01",
  });
  return {
    provider: "twilio",
    contentType: "application/x-www-form-urlencoded; charset=UTF-8",
    headers: {
      "user-agent": "TwilioProxy/1.1",
      "i-twilio-idempotency-token": "5d2f9a34-0c8e-4f8b-9a7e-1f2e3d4c5b6a",
    },
    body: form.toString(),
  };
}

/** https://linear.app/developers/webhooks, type `Issue` */
function linear(nowMs: number): SamplePayload {
  const at = new Date(nowMs).toISOString();
  const body = {
    action: "create",
    type: "Issue",
    createdAt: at,
    organizationId: "a5a1b0d2-3f4e-4c5d-8e6f-7a8b9c0d1e2f",
    url: "https://linear.app/demo/issue/REL-42/receipts-lose-a-cent",
    actor: { id: "b5ea5f1f-8adc-4f52-b4bd-ab4e84cf51ba", type: "user", name: "Ada Lovelace" },
    data: {
      id: "539068e2-ae88-4d09-bd75-22eb4a59612f",
      identifier: "REL-42",
      number: 42,
      title: "Receipts lose a cent",
      priority: 2,
      priorityLabel: "High",
      labelIds: [],
      state: { id: "2d1f6c1c-5b0e-4a6e-8f2a-0c9d8e7f6a5b", name: "Triage", type: "triage" },
      team: { id: "72b2a2dc-6f4f-4423-9d34-24b5bd10634a", key: "REL", name: "Relay" },
      createdAt: at,
      updatedAt: at,
    },
    webhookTimestamp: nowMs,
    webhookId: "000042e3-d123-4980-b49f-8e140eef9329",
  };
  return {
    provider: "linear",
    contentType: "application/json; charset=utf-8",
    headers: {
      "user-agent": "Linear-Webhook",
      "linear-event": "Issue",
      "linear-delivery": "234d1a4e-b617-4388-90fe-adc3633d6b72",
    },
    body: JSON.stringify(body),
  };
}
