import { ApiFailure } from "./api-failure.ts";

/**
 * Negotiates the content type (RFC 9110, 12.5.1): the most specific range that covers JSON decides.
 * @throws {ApiFailure} `not_acceptable` when the client refuses JSON
 */
export function requireJsonAccepted(accept: string | null): void {
  if (accept === null || accept.trim() === "") return;
  let bestRank = 0;
  let bestWeight = 0;
  for (const part of accept.split(",")) {
    const [range = "", ...parameters] = part.split(";").map((piece) => piece.trim().toLowerCase());
    const rank = rankOf(range);
    if (rank === 0 || rank < bestRank) continue;
    const weight = weightOf(parameters);
    bestWeight = rank === bestRank ? Math.max(bestWeight, weight) : weight;
    bestRank = rank;
  }
  if (bestWeight === 0)
    throw new ApiFailure("not_acceptable", "Accept: this service answers application/json only.");
}

function rankOf(range: string): number {
  if (range === "application/json") return 3;
  if (range === "application/*") return 2;
  return range === "*/*" ? 1 : 0;
}

function weightOf(parameters: readonly string[]): number {
  const quality = parameters.find((parameter) => /^q\s*=/.test(parameter));
  if (quality === undefined) return 1;
  const weight = Number(quality.slice(quality.indexOf("=") + 1));
  return Number.isFinite(weight) ? weight : 1;
}
