import type { Broker, Cluster } from "kafkajs";
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

/** How often within the timeout what stands is committed once more, so that one that comes late ends no session. */
const PROOFS_PER_SESSION = 4;

interface FetchedOffsets {
  readonly topic: string;
  readonly partitions: readonly {
    readonly partition: number;
    readonly offset: string;
    readonly metadata?: string | null;
  }[];
}

/**
 * Membership of the group, seen from the wire. kafkajs rejoins without waiting for anything and reveals neither the
 * generation nor when a heartbeat was sent, so both are read where the coordinator is called:
 *
 *   joinGroup ── waits for beforeJoin ──▶ generation     heartbeat, syncGroup ──▶ session lives until sent + timeout
 *
 * The broker counts the timeout from when it handles the heartbeat, which is later than when it was sent: this side always
 * sees the session end first, whatever froze in between.
 *
 * A coordinator that the other brokers do not reach answers heartbeats as before, while one of them takes the group over, waits for
 * the same timeout and gives the partitions to others. What the old one cannot do is keep a commit, which takes replicas that follow
 * it. So a session also ends that long after the last commit that was kept was sent; where nothing is to be committed, what stands
 * is committed once more.
 */
export class GroupSession {
  readonly #options: GroupSessionOptions;
  readonly #facades = new WeakMap<Broker, Broker>();
  #cluster: Cluster | null = null;
  #memberId = "";
  #generation = -1;
  #partitions: number | null = null;
  /** Why nothing more is committed in this generation, and the group joined again; null while all is well. */
  #voidBecause: string | null = null;
  #renewedMs = Number.NEGATIVE_INFINITY;
  #joinSentMs = Number.NEGATIVE_INFINITY;
  /** When the last commit was sent that was kept; null in a generation that has none to repeat. */
  #keptMs: number | null = null;
  /** Whom heartbeats of the last join go to. */
  #current: CurrentCoordinator | null = null;
  #find: () => Promise<Coordinator> = () => Promise.reject(notConnected());
  readonly #commits: OffsetCommits;

  constructor(options: GroupSessionOptions) {
    this.#options = options;
    this.#commits = new OffsetCommits(options.groupId, {
      coordinator: () => this.#current?.broker ?? null,
      findCoordinator: () => this.#find(),
      monotonic: options.monotonic,
      isOpen: (generation) => generation === this.#generation && this.#voidBecause === null,
      memberId: () => this.#memberId,
      onKept: (generation, sentMs, coordinator) => {
        if (generation !== this.#generation) return;
        this.#keptMs = Math.max(this.#keptMs ?? sentMs, sentMs);
        // Another one may still answer heartbeats.
        this.#current?.joined(coordinator);
      },
      // Nothing can show any more that this coordinator is the group's, so what is committed has to be looked up by a new generation.
      onNoneKnown: (generation) => {
        if (generation !== this.#generation || this.isAlive()) return;
        this.#voidBecause ??= "it is not known whether its commits were kept";
      },
      onFenced: (generation) => {
        if (generation !== this.#generation) return;
        this.end();
        this.#voidBecause = "the group has given this member up";
      },
      // Positions of this generation may be those of a topic that is gone.
      onTopicDeleted: (generation) => {
        if (generation === this.#generation)
          this.#voidBecause ??= "a topic of the group was deleted";
      },
    });
  }

  /** The consumer's own view of the cluster. @throws {LogError} before the consumer is made */
  get cluster(): Cluster {
    if (this.#cluster === null) throw notConnected();
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
    const sinceMs = Math.min(this.#renewedMs, this.#keptMs ?? this.#renewedMs);
    return monotonic() - sinceMs < sessionTimeoutMs;
  }

  /** Hooks into the cluster that the consumer talks through. */
  attach(cluster: Cluster): void {
    this.#cluster = cluster;
    const find = cluster.findGroupCoordinator.bind(cluster);
    this.#find = async () => (await find({ groupId: this.#options.groupId })) as Coordinator;
    cluster.findGroupCoordinator = async (group) => this.#facade(await find(group));
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
    const generation = this.#generation;
    const request = {
      groupId: this.#options.groupId,
      topics: topics.map(({ topic, partitions }) => ({
        topic,
        partitions: partitions.map((partition) => ({ partition, offset: "0" })),
      })),
    };
    // Of the one that answers heartbeats: one that the other brokers do not reach knows only what was committed before.
    const coordinator = this.#current?.broker ?? (await this.#find());
    const { responses } = await coordinator.offsetFetch(request);
    const found = foundOffsets(responses);
    this.#commits.found(found, generation);
    if (found.length > 0 && generation === this.#generation) this.#keptMs ??= this.#joinSentMs;
    const byName = new Map(
      found.map(({ topic, partition, offset, metadata }) => [
        partitionName(topic, partition),
        { offset, metadata },
      ]),
    );
    return (topic, partition) => byName.get(partitionName(topic, partition)) ?? null;
  }

  /** Commits for one generation: see `OffsetCommits.commit`. @throws {LogError} */
  commit(entries: readonly WireCommit[], generation: number): Promise<void> {
    return this.#commits.commit(entries, generation);
  }

  #facade(broker: Broker): Broker {
    const known = this.#facades.get(broker);
    if (known !== undefined) return known;
    const coordinator = broker as Coordinator;
    const { monotonic, onError } = this.#options;
    const current = new CurrentCoordinator(coordinator, {
      find: () => this.#find(),
      monotonic,
      onError,
    });
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
        this.#current = current;
        const sentMs = monotonic();
        const response = await renewing(() => this.#joinAsBefore(coordinator, request));
        this.#joined(response, sentMs);
        return response;
      },
      syncGroup: async (request: JoinRequest) => {
        const response = await renewing(() => coordinator.syncGroup(request));
        this.#partitions = assignedCount(response.memberAssignment);
        return response;
      },
      heartbeat: async (request: JoinRequest) => {
        if (this.#voidBecause !== null) throw rejoin(this.#voidBecause);
        const generation = this.#generation;
        this.#keepProven();
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

  /** A generation begins with its members' assignments, which are kept as commits are: after all of them have asked to join. */
  #joined({ memberId, generationId }: JoinResponse, sentMs: number): void {
    this.#memberId = memberId;
    this.#voidBecause = null;
    if (generationId === this.#generation) return;
    this.#generation = generationId;
    this.#joinSentMs = sentMs;
    this.#keptMs = null;
    this.#commits.begin(generationId);
  }

  /** Sees to it that a commit is kept from time to time. */
  #keepProven(): void {
    const { monotonic, sessionTimeoutMs } = this.#options;
    if (this.#keptMs === null || this.#hasEnded()) return;
    if (monotonic() - this.#keptMs >= sessionTimeoutMs / PROOFS_PER_SESSION)
      this.#commits.repeat(this.#generation);
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

function notConnected(): LogError {
  return new LogError("log_unavailable", "not connected to the log");
}

/** Returns what was committed, without the partitions for which nothing was. */
function foundOffsets(topics: readonly FetchedOffsets[]): readonly WireCommit[] {
  return topics.flatMap(({ topic, partitions }) =>
    partitions
      .map(({ partition, offset, metadata }) => ({
        topic,
        partition,
        offset: Number(offset),
        metadata: metadata ?? "",
      }))
      .filter(({ offset }) => offset >= 0),
  );
}
