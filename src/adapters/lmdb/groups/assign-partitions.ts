/**
 * Splits the partitions evenly over the members of a group and moves as few as possible.
 * @returns the member of every partition; empty without members
 */
export function assignPartitions<Member>(
  partitions: number,
  members: readonly Member[],
  current: ReadonlyMap<number, Member>,
): Map<number, Member> {
  const assigned = new Map<number, Member>();
  if (members.length === 0) return assigned;
  const quota = Math.floor(partitions / members.length);
  let extras = partitions % members.length;
  const counts = new Map<Member, number>(members.map((member) => [member, 0]));
  const take = (partition: number, member: Member): boolean => {
    const count = counts.get(member);
    if (count === undefined || count > quota || (count === quota && extras === 0)) return false;
    if (count === quota) extras--;
    counts.set(member, count + 1);
    assigned.set(partition, member);
    return true;
  };
  const left: number[] = [];
  for (let partition = 0; partition < partitions; partition++) {
    const owner = current.get(partition);
    if (owner === undefined || !take(partition, owner)) left.push(partition);
  }
  for (const partition of left) {
    const byLoad = members.toSorted((a, b) => counts.get(a)! - counts.get(b)!);
    take(partition, byLoad[0]!);
  }
  return assigned;
}
