import type { Clock } from "../../../domain/clock.ts";
import type { ConsumerOptions, LogConsumer, Topic } from "../../../domain/log.ts";
import { within } from "../../../domain/within.ts";
import { assignPartitions } from "./assign-partitions.ts";
import { PartitionOwnership } from "./partition-ownership.ts";
import type { OwnershipDeps } from "./partition-ownership.ts";
import { toError } from "../../../domain/thrown.ts";

/** How long an owner may take to stop and commit before the next one starts. */
const REVOKE_TIMEOUT_MS = 5_000;
/** Rest before a partition whose consumer failed is assigned again. */
const RESTART_DELAY_MS = 1_000;

interface Member {
  readonly options: ConsumerOptions;
}
interface Assignment {
  readonly member: Member;
  readonly ownership: PartitionOwnership;
  /** Settled once `onAssigned` has ended, well or badly. */
  readonly settled: Promise<void>;
  ending: boolean;
}

export interface GroupDeps extends OwnershipDeps {
  readonly clock: Clock;
}

/** The consumers of one group in this process: who owns which partition number, and the hand-overs. */
export class Group {
  readonly #deps: GroupDeps;
  readonly #assignments = new Map<number, Assignment>();
  readonly #restarts = new Set<() => void>();
  #members: Member[] = [];
  #work: Promise<void> = Promise.resolve();

  constructor(deps: GroupDeps) {
    this.#deps = deps;
  }

  join(options: ConsumerOptions): LogConsumer {
    const member: Member = { options };
    this.#members.push(member);
    void this.#rebalance();
    return {
      lag: async () => this.#lag(member),
      [Symbol.asyncDispose]: async () => {
        this.#members = this.#members.filter((other) => other !== member);
        await this.#rebalance();
      },
    };
  }

  async leaveAll(): Promise<void> {
    this.#members = [];
    for (const cancel of this.#restarts) cancel();
    this.#restarts.clear();
    await this.#rebalance();
  }

  /** Rebalances, one call at a time; each acts on the members as they are when its turn comes. */
  #rebalance(): Promise<void> {
    this.#work = this.#work.then(() => this.#rebalanceNow());
    return this.#work;
  }

  async #rebalanceNow(): Promise<void> {
    const current = new Map([...this.#assignments].map(([p, { member }]) => [p, member]));
    const target = assignPartitions(this.#deps.streams.partitions, this.#members, current);
    const moves = [...this.#assignments].filter(([p, { member }]) => target.get(p) !== member);
    await Promise.all(moves.map(([partition, assignment]) => this.#revoke(partition, assignment)));
    for (const [partition, member] of target)
      if (!this.#assignments.has(partition) && this.#members.includes(member))
        this.#assign(partition, member);
  }

  #assign(partition: number, member: Member): void {
    const failed = (cause: unknown) => this.#failed(partition, assignment, cause);
    const ownership = new PartitionOwnership(partition, member.options, this.#deps, failed);
    const settled = Promise.resolve()
      .then(() => member.options.onAssigned(ownership))
      .then(() => ownership.start(), failed);
    const assignment: Assignment = { member, ownership, settled, ending: false };
    this.#assignments.set(partition, assignment);
  }

  async #revoke(partition: number, assignment: Assignment): Promise<void> {
    const { member, ownership } = assignment;
    assignment.ending = true;
    ownership.stop();
    const revoked = assignment.settled
      .then(() => member.options.onRevoked(ownership))
      .catch((cause: unknown) => member.options.onError(toError(cause)));
    await within(revoked, REVOKE_TIMEOUT_MS, () => {}, this.#deps.clock);
    ownership.end();
    if (this.#assignments.get(partition) === assignment) this.#assignments.delete(partition);
  }

  /** Takes the partition away from a consumer that threw, and gives it back a little later. */
  #failed(partition: number, assignment: Assignment, cause: unknown): void {
    if (assignment.ending) return;
    assignment.ending = true;
    assignment.ownership.stop();
    assignment.member.options.onError(toError(cause));
    const cancel = this.#deps.clock.schedule(RESTART_DELAY_MS, () => {
      this.#restarts.delete(cancel);
      this.#work = this.#work.then(async () => {
        if (this.#assignments.get(partition) === assignment)
          await this.#revoke(partition, assignment);
        await this.#rebalanceNow();
      });
    });
    this.#restarts.add(cancel);
  }

  #lag(member: Member): ReadonlyMap<Topic, number> {
    const lag = new Map<Topic, number>();
    for (const { member: owner, ownership } of this.#assignments.values())
      if (owner === member)
        for (const topic of member.options.topics)
          lag.set(topic, (lag.get(topic) ?? 0) + ownership.lag(topic));
    return lag;
  }
}
