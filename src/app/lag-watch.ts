type ReadLag = () => Promise<ReadonlyMap<string, number>>;

/** Collects the lag of every consumer group of this process for `/metrics`. One that cannot answer is left out. */
export function makeLagWatch(): {
  readonly watch: (group: string, lag: ReadLag) => void;
  readonly read: () => Promise<
    readonly { readonly group: string; readonly topic: string; readonly records: number }[]
  >;
} {
  const groups = new Map<string, ReadLag>();
  return {
    watch: (group, lag) => void groups.set(group, lag),
    read: async () => {
      const readings = await Promise.all(
        [...groups].map(async ([group, lag]) => {
          try {
            return [...(await lag())].map(([topic, records]) => ({ group, topic, records }));
          } catch {
            return [];
          }
        }),
      );
      return readings.flat();
    },
  };
}
