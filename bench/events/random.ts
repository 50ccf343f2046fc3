/** A small seeded generator (mulberry32): runs must be repeatable, not unpredictable. */
export interface SeededRandom {
  unit(): number;
  below(limit: number): number;
  pick<T>(values: readonly T[]): T;
  text(length: number, alphabet: string): string;
  /** 0 is the most likely, with weight 1/(n+1). */
  zipf(count: number): number;
}

export function makeRandom(seed: number): SeededRandom {
  let state = seed >>> 0;
  const sums = new Map<number, number[]>();
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
      let text = "";
      for (let index = 0; index < length; index += 1)
        text += alphabet.charAt(below(alphabet.length));
      return text;
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
