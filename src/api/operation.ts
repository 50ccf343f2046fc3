import type { z } from "@hono/zod-openapi";
import type { Scope } from "../domain/api-key.ts";
import type { EventQueries } from "../domain/event-query.ts";
import type { IdKind } from "../domain/ids.ts";
import type { InTurn } from "../management/in-turn.ts";
import type { Actor, Management } from "../management/management.ts";
import type { ApiErrorCode } from "./api-failure.ts";
import type { PaginationView } from "./schemas/common.ts";

/** What an operation's handler gets: everything is validated and the key is known. */
interface OperationInput<Ids, Query, Body> {
  readonly actor: Actor;
  readonly management: Management;
  readonly queries: EventQueries;
  readonly ids: Ids;
  readonly query: Query;
  readonly body: Body;
  /** Takes a turn among the writes of the organization for a part of one that `waitsElsewhere`. */
  readonly inTurn: InTurn;
  /** Waits for the place that an answer of a large event takes until it is written. */
  readonly beforeLarge: () => Promise<void>;
  /** Aborts when the client has gone, to end operations that only read. */
  readonly signal: AbortSignal;
}

type OperationResult<Data> =
  | { readonly data: Data; readonly pagination?: PaginationView }
  | undefined;

/** One operation: its documentation, validation and handler in one object. */
export interface Operation<
  Ids extends Readonly<Record<string, IdKind>>,
  Query extends z.ZodType,
  Body extends z.ZodType,
  Data extends z.ZodType,
> {
  readonly operationId: string;
  readonly method: "get" | "post" | "patch" | "delete";
  /** As in the specification, with `{name}` for each key of `ids`. */
  readonly path: string;
  readonly tag: "Projects" | "Endpoints" | "Destinations" | "Events";
  readonly summary: string;
  readonly description: string;
  readonly scope: Scope;
  readonly ids: Ids;
  readonly query: Query;
  readonly body: Body;
  /** `schema` is that of `data`; null for an answer without a body. */
  readonly success: {
    readonly status: 200 | 201 | 204;
    readonly description: string;
    readonly schema: Data | null;
    readonly paginated?: true;
  };
  /** Waits for more than PostgreSQL, and so takes no turn among the writes of its organization, or only with `inTurn`. */
  readonly waitsElsewhere?: true;
  /** Codes that its use case adds to those that every operation can return. */
  readonly errors: readonly ApiErrorCode[];
  handle(
    input: OperationInput<
      { readonly [Name in keyof Ids]: string },
      z.output<Query>,
      z.output<Body>
    >,
  ): Promise<OperationResult<z.input<Data>>>;
}

export type AnyOperation = Operation<
  Readonly<Record<string, IdKind>>,
  z.ZodType,
  z.ZodType,
  z.ZodType
>;

/** Infers the types of a handler's input from the schemas beside it. */
export function defineOperation<
  const Ids extends Readonly<Record<string, IdKind>>,
  Query extends z.ZodType,
  Body extends z.ZodType,
  Data extends z.ZodType,
>(operation: Operation<Ids, Query, Body, Data>): Operation<Ids, Query, Body, Data> {
  return operation;
}
