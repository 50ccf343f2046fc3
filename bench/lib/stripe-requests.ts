import { createHmac } from "node:crypto";

export interface StripeRequestOptions {
  readonly endpoints: number;
  readonly bodyBytes: number;
  /** Share of requests with a wrong signature. */
  readonly forgedShare: number;
  /** The endpoints' tokens, where they are not the bench's own. */
  readonly tokens?: readonly string[];
}

const DISTINCT_REQUESTS = 4_000;
const ZIPF_EXPONENT = 1;
/** Well within Stripe's tolerance of five minutes. */
const SIGNED_ANEW_AFTER_MS = 120_000;

export const benchToken = (index: number): string => `bench${String(index).padStart(21, "0")}`;
export const benchSecret = (index: number): string => `whsec_bench_${index}`;

/**
 * Returns a function that yields whole requests, ready to be written, in an endless cycle: Stripe webhooks spread over
 * endpoints with a Zipf skew. A request whose signature has grown old is signed again when its turn comes.
 */
export function stripeRequestsInTurn(options: StripeRequestOptions): () => Buffer {
  const pick = makeZipf(options.endpoints);
  const sign = (index: number): { readonly bytes: Buffer; readonly signedAtMs: number } => ({
    bytes: makeRequest(index, pick((index * 0.618_033_988_75) % 1), options),
    signedAtMs: Date.now(),
  });
  const requests = Array.from({ length: DISTINCT_REQUESTS }, (_, index) => sign(index));
  let at = 0;
  return () => {
    const index = at;
    at = (at + 1) % requests.length;
    const request = requests[index]!;
    if (Date.now() - request.signedAtMs < SIGNED_ANEW_AFTER_MS) return request.bytes;
    return (requests[index] = sign(index)).bytes;
  };
}

function makeRequest(index: number, endpoint: number, options: StripeRequestOptions): Buffer {
  const timestamp = Math.floor(Date.now() / 1_000);
  const body = makeBody(index, timestamp, options.bodyBytes);
  const forged = index % 100 < options.forgedShare * 100;
  const digest = createHmac("sha256", forged ? "wrong" : benchSecret(endpoint))
    .update(`${timestamp}.${body}`)
    .digest("hex");
  return Buffer.from(
    `POST /in/${options.tokens?.[endpoint] ?? benchToken(endpoint)} HTTP/1.1\r\n` +
      "Host: hooks.example.com\r\n" +
      "User-Agent: Stripe/1.0 (+https://stripe.com/docs/webhooks)\r\n" +
      "Accept: */*; q=0.5, application/xml\r\n" +
      "Cache-Control: no-cache\r\n" +
      "Content-Type: application/json; charset=utf-8\r\n" +
      `Stripe-Signature: t=${timestamp},v1=${digest}\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}

/** Makes a `payment_intent.succeeded` in Stripe's shape, padded to the size. */
function makeBody(index: number, created: number, sizeBytes: number): string {
  const event = {
    id: `evt_${String(index).padStart(24, "0")}`,
    object: "event",
    api_version: "2024-06-20",
    created,
    type: "payment_intent.succeeded",
    livemode: true,
    pending_webhooks: 1,
    request: { id: `req_${index}`, idempotency_key: `key-${index * 7_919}` },
    data: {
      object: {
        id: `pi_${String(index * 31).padStart(24, "0")}`,
        object: "payment_intent",
        amount: 1_000 + (index % 5_000),
        currency: "eur",
        status: "succeeded",
        customer: `cus_${index % 977}`,
        metadata: { order: `order-${index}`, note: "" },
      },
    },
  };
  const missing = sizeBytes - Buffer.byteLength(JSON.stringify(event));
  event.data.object.metadata.note = "lorem ipsum "
    .repeat(Math.ceil(missing / 12))
    .slice(0, Math.max(0, missing));
  return JSON.stringify(event);
}

/** Maps [0, 1) to an index; index i has a weight of 1 / (i + 1). */
function makeZipf(size: number): (uniform: number) => number {
  const cumulative: number[] = [];
  let total = 0;
  for (let index = 0; index < size; index += 1) {
    total += 1 / (index + 1) ** ZIPF_EXPONENT;
    cumulative.push(total);
  }
  return (uniform) =>
    Math.max(
      0,
      cumulative.findIndex((bound) => uniform * total < bound),
    );
}
