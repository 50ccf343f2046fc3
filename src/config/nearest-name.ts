/** The most typing errors that still make a near miss. */
const MAX_ERRORS = 2;

/**
 * Returns the candidate with the smallest edit distance, for "did you mean …?"; null when none is near: more than a third of
 * the name's letters would be wrong.
 */
export function nearestName(
  name: string,
  candidates: readonly string[],
  maxErrors = name.length / 3,
): string | null {
  let best: string | null = null;
  let bestDistance = Number.POSITIVE_INFINITY;
  for (const candidate of candidates) {
    const distance = editDistance(name, candidate);
    if (distance > maxErrors || distance >= bestDistance) continue;
    best = candidate;
    bestDistance = distance;
  }
  return best;
}

/**
 * Returns whether `name` looks like `known` mistyped. A different word in place of a short one (`_SSL` for `_URL`) is a
 * different name, not a typing error.
 */
export function isNearMiss(name: string, known: string): boolean {
  const distance = editDistance(name, known);
  if (distance === 0 || distance > MAX_ERRORS) return false;
  const [typed, meant] = [name.split("_"), known.split("_")];
  return (
    typed.length !== meant.length ||
    meant.every((word, index) => editDistance(typed[index] ?? "", word) * 2 < word.length)
  );
}

/**
 * Counts the letters to insert, drop, replace, or swap with their neighbour (Damerau-Levenshtein, optimal string alignment).
 */
function editDistance(from: string, to: string): number {
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let row = 1; row <= from.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= to.length; column += 1) {
      const substitution = (previous[column - 1] ?? 0) + (from[row - 1] === to[column - 1] ? 0 : 1);
      const isSwapped = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      current.push(
        Math.min(
          substitution,
          (previous[column] ?? 0) + 1,
          (current[column - 1] ?? 0) + 1,
          isSwapped ? (beforePrevious[column - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
        ),
      );
    }
    [beforePrevious, previous] = [previous, current];
  }
  return previous[to.length] ?? 0;
}
