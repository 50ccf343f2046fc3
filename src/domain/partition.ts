/**
 * Returns the home partition of a key: murmur2 like Kafka's default partitioner, so that tools and other producers agree with
 * us. Source: org.apache.kafka.common.utils.Utils#murmur2.
 */
export function partitionOf(key: string, partitions: number): number {
  return (murmur2(Buffer.from(key)) & 0x7fffffff) % partitions;
}

function murmur2(data: Uint8Array): number {
  const m = 0x5bd1e995;
  const length = data.length;
  let h = 0x9747b28c ^ length;
  const end = length - (length % 4);
  for (let i = 0; i < end; i += 4) {
    let k =
      (data[i]! & 0xff) |
      ((data[i + 1]! & 0xff) << 8) |
      ((data[i + 2]! & 0xff) << 16) |
      ((data[i + 3]! & 0xff) << 24);
    k = Math.imul(k, m);
    k ^= k >>> 24;
    k = Math.imul(k, m);
    h = Math.imul(h, m) ^ k;
  }
  const rest = length % 4;
  if (rest === 3) h ^= (data[end + 2]! & 0xff) << 16;
  if (rest >= 2) h ^= (data[end + 1]! & 0xff) << 8;
  if (rest >= 1) {
    h ^= data[end]! & 0xff;
    h = Math.imul(h, m);
  }
  h ^= h >>> 13;
  h = Math.imul(h, m);
  h ^= h >>> 15;
  return h;
}
