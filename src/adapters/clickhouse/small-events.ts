import type { EventRecord } from "../../domain/event.ts";
import type { EventStoreReader } from "../../domain/event-store.ts";
import type { QueryParameters } from "./ask.ts";
import { toEvent, type EventJson } from "./rows.ts";
import { timeText } from "./tab-separated.ts";

const MOST_SMALL_BYTES = 64 * 1024;

/** Times are given as such, not computed from numbers: the primary key finds rows by constants only. */
const SELECT_SMALL_EVENTS = `
  SELECT id, details, headers, if(length(payload) <= ${MOST_SMALL_BYTES}, base64Encode(payload), NULL) AS payload_base64
  FROM events
  PREWHERE org_id = {org_id:String} AND received_at IN {times:Array(DateTime64(3, 'UTC'))} AND id IN {ids:Array(String)}
  LIMIT 1 BY id`;

/** An event's row, whose payload is null if it is large. */
interface SmallEventJson extends Omit<EventJson, "payload_base64"> {
  readonly id: string;
  readonly payload_base64: string | null;
}

type LookUp = <Row>(query: string, parameters: QueryParameters) => Promise<Row[]>;

/** Makes the read of several events by their keys, in one statement: most of what one takes is its plan. */
export function makeSmallEvents(lookUp: LookUp): EventStoreReader["smallEvents"] {
  return async (orgId, keys) => {
    const rows = await lookUp<SmallEventJson>(SELECT_SMALL_EVENTS, {
      org_id: orgId,
      ids: keys.map(({ id }) => id),
      times: keys.map(({ receivedAtMs }) => timeText(receivedAtMs)),
    });
    const rowOf = new Map(rows.map((row) => [row.id, row]));
    const found = new Map<string, EventRecord | "large">();
    for (const key of keys) {
      const row = rowOf.get(key.id);
      if (row === undefined) continue;
      const { details, headers, payload_base64 } = row;
      const isLarge = payload_base64 === null;
      const event = isLarge ? "large" : toEvent({ details, headers, payload_base64 }, orgId, key);
      found.set(key.id, event);
    }
    return found;
  };
}
