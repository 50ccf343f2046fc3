import type { EndpointConfig } from "../../domain/endpoint.ts";

const METHODS = ["POST", "PUT", "PATCH", "DELETE"];
const ALLOW = METHODS.join(", ");

/** Allows GET only for Twilio, which can be set to send its webhooks that way. */
export function isAllowed(method: string, endpoint: Pick<EndpointConfig, "method">): boolean {
  if (method === "POST") return true;
  return method === "GET" ? endpoint.method === "twilio_signature" : METHODS.includes(method);
}

/** Returns the value of the `Allow` header. */
export function allowedMethods(endpoint: Pick<EndpointConfig, "method">): string {
  return endpoint.method === "twilio_signature" ? `GET, ${ALLOW}` : ALLOW;
}
