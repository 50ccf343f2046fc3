import { TOPICS } from "../../../domain/log.ts";
import type { CommitEntry, Committed, Topic } from "../../../domain/log.ts";
import type { CommitStore } from "../store.ts";
import type { GroupCommit } from "../commit/group-commit.ts";
import type { StreamTable } from "../streams/stream-table.ts";

interface Registration {
  readonly topics: readonly Topic[];
  readonly sideTopics: readonly Topic[];
}

/** A group that has committed more than its log holds: the log's files are not as a relay of this version left them. */
interface GroupAhead {
  readonly group: string;
  readonly topic: Topic;
  readonly partition: number;
  readonly committed: number;
  readonly end: number;
}

export interface GroupStatesDeps {
  readonly store: CommitStore;
  readonly streams: StreamTable;
  readonly writer: GroupCommit;
  readonly ahead: (ahead: GroupAhead) => void;
}

/** Which groups there are and how far each has come: durable, and mirrored in memory. */
export class GroupStates {
  readonly #writer: GroupCommit;
  readonly #registrations = new Map<string, Registration>();
  readonly #commits = new Map<string, Committed>();

  constructor({ store, streams, writer, ahead }: GroupStatesDeps) {
    this.#writer = writer;
    for (const [key, json] of store.groupEntries()) {
      if (!key.startsWith("[")) continue;
      const [group, topic, partition] = JSON.parse(key) as [string, Topic?, number?];
      if (topic === undefined || partition === undefined) {
        this.#registrations.set(group, JSON.parse(json) as Registration);
        continue;
      }
      const committed = JSON.parse(json) as Committed;
      const end = streams.get(topic, partition).endOffset;
      const isAhead = committed.offset > end;
      // As with Kafka: what has been appended is taken for done, what comes from now on is read.
      this.#commits.set(key, isAhead ? { ...committed, offset: end } : committed);
      if (isAhead) ahead({ group, topic, partition, committed: committed.offset, end });
    }
  }

  /** Registers the group: from now on nothing is trimmed that it has not committed past. */
  async register(group: string, registration: Registration): Promise<void> {
    const known = this.#registrations.get(group);
    const merged: Registration = {
      topics: union(known?.topics, registration.topics),
      sideTopics: union(known?.sideTopics, registration.sideTopics),
    };
    const json = JSON.stringify(merged);
    if (json === JSON.stringify(known)) return;
    await this.#writer.change(() => ({ groups: [[JSON.stringify([group]), json]] }));
    this.#registrations.set(group, merged);
  }

  committed(group: string, topic: Topic, partition: number): Committed | null {
    return this.#commits.get(JSON.stringify([group, topic, partition])) ?? null;
  }

  async commit(group: string, partition: number, entries: readonly CommitEntry[]): Promise<void> {
    const changes = entries.map(({ topic, offset, metadata = "" }) => {
      const committed: Committed = { offset, metadata };
      return { key: JSON.stringify([group, topic, partition]), committed };
    });
    await this.#writer.change(() => ({
      groups: changes.map(({ key, committed }) => [key, JSON.stringify(committed)] as const),
    }));
    for (const { key, committed } of changes) this.#commits.set(key, committed);
  }

  /** Returns the groups that get the records of the topic, and those that read it on the side. */
  subscribers(topic: Topic): { readonly groups: string[]; readonly sideGroups: string[] } {
    const groups: string[] = [];
    const sideGroups: string[] = [];
    for (const [group, { topics, sideTopics }] of this.#registrations) {
      if (topics.includes(topic)) groups.push(group);
      else if (sideTopics.includes(topic)) sideGroups.push(group);
    }
    return { groups, sideGroups };
  }
}

function union(known: readonly Topic[] = [], wanted: readonly Topic[]): Topic[] {
  return TOPICS.filter((topic) => known.includes(topic) || wanted.includes(topic));
}
