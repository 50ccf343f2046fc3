import { setTimeout as sleep } from "node:timers/promises";
import { codeOfBroker } from "../consume/coordinator-errors.ts";
import { classToGuard } from "./guard-class.ts";

interface Cluster {
  readonly brokerPool: {
    readonly metadata: {
      readonly brokers: readonly {
        readonly nodeId: number;
        readonly host: string;
        readonly port: number;
      }[];
    } | null;
  };
  refreshMetadata(): Promise<void>;
}
interface ConsumerGroup {
  readonly cluster: Cluster;
  /** When the last heartbeat was sent, wall clock, ms. */
  lastRequest: number;
  heartbeat: (this: ConsumerGroup, every: { readonly interval: number }) => Promise<void>;
  joinAndSync: (this: ConsumerGroup) => Promise<void>;
  fetch: (this: ConsumerGroup, nodeId: string) => Promise<readonly unknown[]>;
  recoverFromFetch: (this: ConsumerGroup, error: unknown) => Promise<void>;
  recoverFromOffsetOutOfRange: (
    this: ConsumerGroup,
    error: { readonly topic: string; readonly partition: number },
  ) => Promise<void>;
}

export interface GroupListener {
  /** Called every fifteen seconds while a broker cannot be reached: what it leads is not read. */
  readonly unreachable: (error: Error) => void;
  /** Called when a broker has answered what it was asked for, even if that is nothing new, and no other is unreachable. */
  readonly fetched: () => void;
  /** Called when the log does not hold what was asked for: `seek`, or it is asked for again. `topic` is the brokers' name. */
  readonly outOfRange: (topic: string, partition: number) => Promise<void>;
}

/** Long enough to reconnect again and again without a rush; partitions that moved to another broker are found as often. */
const UNREACHABLE_PAUSE_MS = 500;
const OUT_OF_RANGE_PAUSE_MS = 100;
/** Brokers learn of a new leader within some milliseconds of one another. */
const MOVED_LEADER_PAUSE_MS = 100;
/** A partition has another leader than the metadata says, or none at the moment, or the disk of the one that it had has failed. */
const LEADER_MOVED: ReadonlySet<unknown> = new Set([
  "KAFKA_STORAGE_ERROR",
  "NOT_LEADER_FOR_PARTITION",
  "LEADER_NOT_AVAILABLE",
  "FENCED_LEADER_EPOCH",
  "UNKNOWN_LEADER_EPOCH",
]);
/** Longer than it takes until a broker that died is fenced, after nine seconds by default, and what it led has moved. */
const TELL_EVERY_MS = 15_000;

const joins = new WeakMap<ConsumerGroup, Promise<void>>();
const unjoined = new WeakSet<ConsumerGroup>();
/** By broker: since when it has been unreachable, or when that was last reported. Groups that reach all brokers are not in it. */
const unreachable = new WeakMap<ConsumerGroup, Map<string, number>>();
const listeners = new WeakMap<object, GroupListener>();

/**
 * Repairs six things that kafkajs gets wrong in a group of several brokers.
 *
 * A join that failed halfway (the coordinator took it, and its answer was lost) is not tried again: only the fetchers are
 * restarted. The heartbeats go on, so the partitions stay with a member that was never told of them. Here, fetching
 * asks for the join again, as many times as the client retries; then the consumer crashes, and is started again.
 *
 * A broker that has given a partition away has its reader join the group again, which takes all partitions from all members for a
 * moment. Here, the new leader is looked up. (One that is a replica still, as after a restart of the leader, lets itself be read.) So
 * it is where one of the broker's disks has failed, which ended the consumer after some tries.
 *
 * Each fetcher that meets a reason to join does so for itself, at the same time as the others: two assignments in one generation.
 * Here they share the join that is under way, and none of them fetches meanwhile.
 *
 * A broker that cannot be reached stops the fetchers of all others, and ends the consumer after some tries. Here, only its
 * own fetcher waits. Any other broker that cannot be reached (the group's coordinator) is left to kafkajs: joining again
 * finds another.
 *
 * Where a log does not hold what is asked for, the group's offset is overwritten by one without the owner's metadata. Here,
 * the owner is asked.
 *
 * Heartbeats are counted by the wall clock. Set back by more than the session lasts, none was sent until it had caught up: the
 * group forgot the member, which was never told, and read nothing. Here, the next one is never further away than its interval.
 * Safe to call again.
 */
export function guardConsumerGroup(): void {
  const prototype = classToGuard("consumer/consumerGroup.js") as ConsumerGroup | null;
  if (prototype === null) return;
  const { heartbeat, joinAndSync, fetch, recoverFromFetch } = prototype;
  prototype.heartbeat = function guardedHeartbeat(every) {
    this.lastRequest = Math.min(this.lastRequest, Date.now());
    return heartbeat.call(this, every);
  };
  prototype.joinAndSync = function guardedJoinAndSync() {
    const current = joins.get(this);
    if (current !== undefined) return current;
    unjoined.add(this);
    const join = joinAndSync
      .call(this)
      .then(() => void unjoined.delete(this))
      .finally(() => joins.delete(this));
    joins.set(this, join);
    return join;
  };
  prototype.fetch = async function guardedFetch(nodeId) {
    await joins.get(this)?.catch(() => undefined);
    if (unjoined.has(this)) throw rejoin("the group was not joined: its last join failed");
    try {
      const batches = await fetch.call(this, nodeId);
      noteAnswer(this, nodeId);
      if (batches.length > 0 && !unreachable.has(this)) listeners.get(this.cluster)?.fetched();
      return batches;
    } catch (error) {
      if (!isUnreachable(this, nodeId, error)) throw error;
      tell(this, nodeId, error);
      await sleep(UNREACHABLE_PAUSE_MS);
      await this.cluster.refreshMetadata().catch((failure) => this.recoverFromFetch(failure));
      return [];
    }
  };
  prototype.recoverFromFetch = async function guardedRecoverFromFetch(error) {
    if (!LEADER_MOVED.has(codeOfBroker(error))) return recoverFromFetch.call(this, error);
    await sleep(MOVED_LEADER_PAUSE_MS);
    await this.cluster.refreshMetadata();
  };
  prototype.recoverFromOffsetOutOfRange = async function guardedRecover({ topic, partition }) {
    await listeners.get(this.cluster)?.outOfRange(topic, partition);
    await sleep(OUT_OF_RANGE_PAUSE_MS);
  };
}

export function listenToGroup(cluster: object, listener: GroupListener): void {
  listeners.set(cluster, listener);
}

/** Returns an error of the type at which kafkajs joins again. */
export function rejoin(why: string): Error {
  return Object.assign(new Error(why), { type: "REBALANCE_IN_PROGRESS" });
}

/** Returns whether the error is about the broker that was to be fetched from. */
function isUnreachable({ cluster }: ConsumerGroup, nodeId: string, error: unknown): error is Error {
  const { name, broker } = error as { readonly name?: string; readonly broker?: string };
  if (name !== "KafkaJSConnectionError") return false;
  const found = findInCluster(cluster, nodeId);
  return found !== undefined && broker === `${found.host}:${found.port}`;
}

function findInCluster({ brokerPool }: Cluster, nodeId: string) {
  return brokerPool.metadata?.brokers.find((other) => `${other.nodeId}` === nodeId);
}

/** Takes the broker from the unreachable ones, and with it those that have left the cluster: they lead nothing any more. */
function noteAnswer(group: ConsumerGroup, nodeId: string): void {
  const since = unreachable.get(group);
  if (since === undefined) return;
  for (const other of since.keys())
    if (other === nodeId || findInCluster(group.cluster, other) === undefined) since.delete(other);
  if (since.size === 0) unreachable.delete(group);
}

function tell(group: ConsumerGroup, nodeId: string, error: Error): void {
  const since = unreachable.get(group) ?? new Map<string, number>();
  unreachable.set(group, since);
  const nowMs = performance.now();
  if (!since.has(nodeId)) since.set(nodeId, nowMs);
  if (nowMs - since.get(nodeId)! < TELL_EVERY_MS) return;
  since.set(nodeId, nowMs);
  listeners.get(group.cluster)?.unreachable(error);
}
