/** Returns the CPU seconds that this process spent on the work: neither other work on the machine nor a pause of it adds to them. */
export async function cpuSecondsOf(work: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  await work();
  return process.cpuUsage(before).user / 1e6;
}
