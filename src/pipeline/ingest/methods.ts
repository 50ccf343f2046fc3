import type { EndpointConfig } from "../../domain/endpoint.ts";

const METHODS = ["POST", "PUT", "PATCH", "DELETE"];
const ALLOW = METHODS.join(", ");

/** Twilio alone can be told to send its webhooks as GET. */
export function isAllowed(method: string, endpoint: Pick<EndpointConfig, "method">): boolean {
  if (method === "POST") return true;
  return method === "GET" ? endpoint.method === "twilio_signature" : METHODS.includes(method);
}

/** Value of the `Allow` header. */
export function allowedMethods(endpoint: Pick<EndpointConfig, "method">): string {
  return endpoint.method === "twilio_signature" ? `GET, ${ALLOW}` : ALLOW;
}
