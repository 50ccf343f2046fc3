import type { Provider, VerificationMethod } from "./enums.ts";
import type { HeaderList } from "./event.ts";

/** Everything that decides whether a request is genuine. Nothing else may influence it. */
export interface VerificationRequest {
  readonly provider: Provider;
  readonly method: VerificationMethod;
  /** As `EndpointConfig.methodIsExplicit`: presets apply only when false. */
  readonly methodIsExplicit: boolean;
  readonly secret: string | null;
  readonly config: Readonly<Record<string, unknown>>;
  /** Public base URL + raw request target: what URL-signing providers signed. Never made from `Host`. */
  readonly url: string;
  readonly httpMethod: string;
  readonly headers: HeaderList;
  readonly body: Uint8Array;
  readonly nowMs: number;
  /** Address of the peer as the socket reports it. */
  readonly remoteAddress: string;
  /** CIDRs whose `X-Forwarded-For` is believed. */
  readonly trustedProxies: readonly string[];
}

/** `reason` is the machine word (see vectors), `message` the actionable human text without secrets. */
export type VerificationResult =
  | { readonly valid: true; readonly reason: "ok"; readonly message: null }
  | { readonly valid: false; readonly reason: string; readonly message: string };
