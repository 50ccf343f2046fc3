/** A small seeded generator (mulberry32): runs must be repeatable, not random. */
export interface SeededRandom {
  unit(): number;
  below(limit: number): number;
  pick<T>(values: readonly T[]): T;
  /** Takes at most 256 characters from an ASCII alphabet. */
  text(length: number, alphabet: string): string;
  /** Returns an index below `count`; n has weight 1/(n+1), so 0 is the most likely. */
  zipf(count: number): number;
}

export function makeRandom(seed: number): SeededRandom {
  let state = seed >>> 0;
  const sums = new Map<number, number[]>();
  const characters = Buffer.alloc(256);
  const unit = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
  const below = (limit: number): number => Math.floor(unit() * limit);
  return {
    unit,
    below,
    pick: (values) => values[below(values.length)]!,
    text(length, alphabet) {
      for (let index = 0; index < length; index += 1)
        characters[index] = alphabet.charCodeAt(below(alphabet.length));
      return characters.toString("latin1", 0, length);
    },
    zipf(count) {
      let weights = sums.get(count);
      if (weights === undefined) {
        let sum = 0;
        weights = Array.from({ length: count }, (_, n) => (sum += 1 / (n + 1)));
        sums.set(count, weights);
      }
      const at = unit() * weights.at(-1)!;
      return weights.findIndex((sum) => at < sum);
    },
  };
}
