import type { Broker, Cluster, TopicOffsets } from "kafkajs";
import { LogError, type Committed } from "../../../domain/log.ts";
import { rejoin } from "../guards/consumer-group-guard.ts";
import { partitionName } from "../partition-name.ts";
import { assignedCount } from "./co-partition-assigner.ts";
import { codeOfBroker, isFenced, REBALANCING } from "./coordinator-errors.ts";
import {
  CurrentCoordinator,
  type Coordinator,
  type JoinRequest,
  type JoinResponse,
} from "./current-coordinator.ts";
import { OffsetCommits, type WireCommit } from "./offset-commits.ts";
import type { TopicPartitions } from "./partition-offsets.ts";

export interface GroupSessionOptions {
  readonly groupId: string;
  readonly sessionTimeoutMs: number;
  readonly monotonic: () => number;
  /** Called before the group is joined again or left: old ownership must have ended when it resolves. */
  readonly beforeJoin: () => Promise<void>;
  /** Told while the group's coordinator cannot be found: nothing is read. */
  readonly onError: (error: Error) => void;
}

/**
 * Membership of the group, seen from the wire. kafkajs rejoins without waiting for anything and reveals neither the
 * generation nor when a heartbeat was sent, so both are read where the coordinator is called:
 *
 *   joinGroup ── waits for beforeJoin ──▶ generation     heartbeat, syncGroup ──▶ session lives until sent + timeout
 *
 * The broker counts the timeout from when it handles the heartbeat, which is later than when it was sent: this side always
 * sees the session end first, whatever froze in between.
 */
export class GroupSession {
  readonly #options: GroupSessionOptions;
  readonly #facades = new WeakMap<Broker, Broker>();
  #cluster: Cluster | null = null;
  #memberId = "";
  #generation = -1;
  #partitions: number | null = null;
  /** Set once positions of this generation may be those of a topic that is gone: nothing more is committed, and the group joined again. */
  #isVoid = false;
  #renewedMs = Number.NEGATIVE_INFINITY;
  readonly #commits: OffsetCommits;

  constructor(options: GroupSessionOptions) {
    this.#options = options;
    this.#commits = new OffsetCommits(options.groupId, {
      findCoordinator: () => this.cluster.findGroupCoordinator({ groupId: options.groupId }),
      isOpen: (generation) => generation === this.#generation && !this.#isVoid,
      memberId: () => this.#memberId,
      onTopicDeleted: (generation) => {
        this.#isVoid ||= generation === this.#generation;
      },
    });
  }

  /** The consumer's own view of the cluster. @throws {LogError} before the consumer is made */
  get cluster(): Cluster {
    if (this.#cluster === null) throw new LogError("log_unavailable", "not connected to the log");
    return this.#cluster;
  }

  get generation(): number {
    return this.#generation;
  }

  /** How many partitions there are by the assignment of this generation; null if it does not say. */
  get partitions(): number | null {
    return this.#partitions;
  }

  /** Returns false from the moment the broker may have given our partitions to another member. */
  isAlive(): boolean {
    const { monotonic, sessionTimeoutMs } = this.#options;
    return monotonic() - this.#renewedMs < sessionTimeoutMs;
  }

  /** Hooks into the cluster that the consumer talks through. */
  attach(cluster: Cluster): void {
    this.#cluster = cluster;
    const find = cluster.findGroupCoordinator.bind(cluster);
    const findAnew = async () => (await find({ groupId: this.#options.groupId })) as Coordinator;
    cluster.findGroupCoordinator = async (group) => this.#facade(await find(group), findAnew);
  }

  /** Ends the session at once: the group was left, or the coordinator no longer knows this member. */
  end(): void {
    this.#renewedMs = Number.NEGATIVE_INFINITY;
  }

  #hasEnded(): boolean {
    return this.#renewedMs === Number.NEGATIVE_INFINITY;
  }

  /** Returns the committed offset and metadata of each partition; null where there is none. */
  async committed(
    topics: readonly TopicPartitions[],
  ): Promise<(topic: string, partition: number) => Committed | null> {
    const { groupId } = this.#options;
    const coordinator = await this.cluster.findGroupCoordinator({ groupId });
    const { responses } = await coordinator.offsetFetch({
      groupId,
      topics: topics.map(({ topic, partitions }) => ({
        topic,
        partitions: partitions.map((partition) => ({ partition, offset: "0" })),
      })),
    });
    const found = new Map<string, Committed>();
    for (const { topic, partitions } of responses as readonly TopicOffsets[]) {
      for (const entry of partitions as readonly {
        partition: number;
        offset: string;
        metadata?: string | null;
      }[])
        if (Number(entry.offset) >= 0)
          found.set(partitionName(topic, entry.partition), {
            offset: Number(entry.offset),
            metadata: entry.metadata ?? "",
          });
    }
    return (topic, partition) => found.get(partitionName(topic, partition)) ?? null;
  }

  /** Commits for one generation: see `OffsetCommits.commit`. @throws {LogError} */
  commit(entries: readonly WireCommit[], generation: number): Promise<void> {
    return this.#commits.commit(entries, generation);
  }

  #facade(broker: Broker, findAnew: () => Promise<Coordinator>): Broker {
    const known = this.#facades.get(broker);
    if (known !== undefined) return known;
    const coordinator = broker as Coordinator;
    const { monotonic, onError } = this.#options;
    const current = new CurrentCoordinator(coordinator, { find: findAnew, monotonic, onError });
    const renewing = async <T>(call: () => Promise<T>): Promise<T> => {
      const sentMs = monotonic();
      const result = await call();
      this.#renewedMs = Math.max(this.#renewedMs, sentMs);
      return result;
    };
    const facade = Object.assign(Object.create(coordinator) as Coordinator, {
      joinGroup: async (request: JoinRequest) => {
        await this.#options.beforeJoin();
        current.joined(coordinator);
        const response = await renewing(() => this.#joinAsBefore(coordinator, request));
        this.#memberId = response.memberId;
        this.#generation = response.generationId;
        this.#isVoid = false;
        return response;
      },
      syncGroup: async (request: JoinRequest) => {
        const response = await renewing(() => coordinator.syncGroup(request));
        this.#partitions = assignedCount(response.memberAssignment);
        return response;
      },
      heartbeat: async (request: JoinRequest) => {
        if (this.#isVoid) throw rejoin("a topic of the group was deleted");
        const generation = this.#generation;
        const isOfUse = () => generation === this.#generation && !this.#hasEnded();
        try {
          return await current.ask((asked) => renewing(() => asked.heartbeat(request)), isOfUse);
        } catch (error) {
          // Joined anew meanwhile, it is a member whatever is said of it as it was before.
          if (generation !== this.#generation) return undefined;
          // While the group rebalances we are still a member; after any other of these errors it has forgotten us.
          if (isFenced(error) && codeOfBroker(error) !== REBALANCING) this.end();
          this.#forgetUnknownMember(error);
          throw error;
        }
      },
      leaveGroup: async (request: JoinRequest) => {
        await this.#options.beforeJoin();
        this.end();
        const left = await current.broker.leaveGroup(request);
        this.#memberId = "";
        return left;
      },
    });
    this.#facades.set(broker, facade);
    return facade;
  }

  /**
   * Joins as the member that this was, if it has not left. For kafkajs, a consumer that starts again after a crash is new to the group,
   * which would wait for the member that crashed until its session is over.
   */
  async #joinAsBefore(coordinator: Coordinator, request: JoinRequest): Promise<JoinResponse> {
    try {
      const memberId = request.memberId || this.#memberId;
      return await coordinator.joinGroup({ ...request, memberId });
    } catch (error) {
      this.#forgetUnknownMember(error);
      throw error;
    }
  }

  /** Lets kafkajs, which goes on by joining, join as a new member. */
  #forgetUnknownMember(error: unknown): void {
    if (codeOfBroker(error) === "UNKNOWN_MEMBER_ID") this.#memberId = "";
  }
}
