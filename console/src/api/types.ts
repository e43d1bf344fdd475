// Generated from docs/reference/openapi.json by `npm run types`. Do not edit.

/** The control for every run. */
export type Action = "cancel" | "pause" | "resume" | "retry";

/** The parts that a request must have. */
export type ActionNeeds = {
  comment: boolean;
  /** Paths that `data` must contain. */
  data: string[];
  /** The number of files that the request must have at least. */
  files: number;
  /** Whether the request must carry the digest of the shown values. */
  shown: boolean;
};

/** Why a request would be rejected. */
export type ActionReason = {
  /** A stable code for programs. */
  code: string;
  message: string;
};

/** The present state of a run of a state machine, and what the caller can do in it. */
export type Actions = {
  state: string;
  title: string | null;
  versionNo: number;
  /** When the state was entered. */
  since: string;
  /** When the next timer of the state is due. */
  due: string | null;
  /** The persons to whom the state is assigned. */
  assigned: string[];
  votes: Votes[];
  shown: ShownFields;
  /** The actions of the state, in the order of the definition; none after the end of the run. */
  actions: AvailableAction[];
};

/** `POST /v1/workflows/{name}/activate`. */
export type Activate = {
  version: number;
};

/** The work of a step that has begun. */
export type ActivityHead = ActivityHeadTask | ActivityHeadInstant | ActivityHeadSleep | ActivityHeadWait | ActivityHeadChild | ActivityHeadBody;

/** Its body runs once per item. */
export type ActivityHeadBody = {
  does: "body";
  items: number;
};

/** It waits for a run that it started. */
export type ActivityHeadChild = {
  does: "child";
  run: string;
  workflow: string;
};

export type ActivityHeadInstant = {
  does: "instant";
};

export type ActivityHeadSleep = {
  does: "sleep";
};

export type ActivityHeadTask = {
  does: "task";
};

/** It waits for the signal `event`. */
export type ActivityHeadWait = {
  does: "wait";
  event: string;
};

/** A person or a component that acted. The kind comes from the credential, not from the id. */
export type Actor = {
  kind: ActorKind;
  /** A person's id at the identity provider, the id of a key, a worker or a run, or a part of the server: `@timer`. */
  id: string;
};

export type ActorKind = "person" | "key" | "worker" | "run" | "system";

/** The process is running. */
export type Alive = {
  status: string;
};

/** A deletion of a record. */
export type AppliedDelete = {
  /** Whether the record existed. */
  deleted: boolean;
};

/** A record that was incremented. */
export type AppliedIncrement = {
  /** The sum. */
  value: number;
  revision: number;
  /** The number of the change: the record's `ETag`. */
  change: number;
};

/** A record that was set. */
export type AppliedSet = {
  revision: number;
  /** The number of the change: the record's `ETag`. */
  change: number;
  /** Whether the record was absent before. */
  created: boolean;
};

/** A deletion of links. */
export type AppliedUnlink = {
  deletedCount: number;
};

/** A link that was written. */
export type AppliedUpsert = {
  linkId: string;
  /** Whether the link is new. */
  created: boolean;
  /** The number of the change. */
  change: number;
};

/** An argument that a query declares. */
export type Argument = {
  name: string;
  type?: ArgumentType;
  /** Whether the argument must be given and must not be null; true unless there is a default. */
  required?: boolean | null;
  /** Its value if it is not given; null for an argument that is not required. */
  default?: unknown;
  /** A description for people. */
  description?: string | null;
};

export type ArgumentType = "string" | "number" | "integer" | "boolean" | "any" | "json";

/** `POST /v1/runs/{id}/assign`. */
export type AssignRequest = {
  /** The persons to whom the present state is assigned from now on. */
  who?: string[] | null;
  /** In place of `who`: replaces a voter of the present state who has not voted. */
  voter?: VoterChange | null;
  /** The reason, which the history records. */
  reason?: string | null;
};

export type AssignedData = {
  /** The persons to whom the state is assigned from now on. */
  who?: string[] | null;
  /** The voter that was replaced: `{from, to}`. */
  voter?: unknown;
  by: string;
  reason?: string | null;
};

/** An accepted assignment. */
export type Assignment = {
  success: boolean;
  state: string;
  versionNo: number;
  /** The id of the entry in the history. */
  historyId: string;
};

/** One attempt of a step. */
export type Attempt = {
  attempt: number;
  dispatchedAt: string | null;
  endedAt: string | null;
  /** The status of a step. */
  status: "pending" | "running" | "waiting" | "completed" | "failed" | "skipped" | "cancelled";
  error: Error | null;
  logs?: string[];
};

/** A page of the audit, newest first. */
export type AuditEntries = {
  entries: AuditEntry[];
  /** The cursor of the next page; null on the last one. */
  nextCursor: string | null;
};

/** An action. */
export type AuditEntry = {
  id: string;
  at: string;
  /** The actor: `key:` and the id of an API key; `person:`, the issuer, `/` and the id of a person; or `command line`. */
  actor: string;
  /** The method and the route, such as `POST /v1/runs/{id}/cancel`. */
  action: string;
  /** The target of the action: the path of the request. */
  target: string;
  details: { [name: string]: unknown };
};

/** Who wrote a record or a link last. */
export type Author = {
  /** The run, if a step wrote it. */
  run: string | null;
  /** The key of the step. */
  step: string | null;
  /** `key:` and the id of an API key; `person:`, the issuer, `/` and the id of a person; `run:` and the id of a run. Null if the change is no longer kept. */
  actor: string | null;
};

/** An action of the present state. */
export type AvailableAction = {
  action: string;
  title: string | null;
  /** The states that it may lead to. */
  to: string[];
  /** Whether the caller can perform it now, with the data that it needs. */
  open: boolean;
  needs: ActionNeeds;
  /** The votes, if it has a quorum. */
  quorum: Votes | null;
  /** Why the caller cannot perform it now. */
  reasons: ActionReason[];
};

/** `POST /v1/runs/bulk`. */
export type Bulk = {
  action: Action;
  filter?: Filter;
  /** Required for an empty filter. */
  all?: boolean;
  /** Only counts the selected runs. */
  dryRun?: boolean;
  /** The maximum number of runs; 1,000 by default. */
  limit?: number | null;
  /** `nextCursor` of the previous call, unchanged. */
  cursor?: string | null;
  /** The reason, for `cancel`. */
  reason?: string | null;
};

/** `POST /v1/dead-letters/discard`. */
export type BulkDiscard = {
  filter?: DeadLetterFilter;
  /** Required for an empty filter. */
  all?: boolean;
  /** Only counts the selected dead letters. */
  dryRun?: boolean;
  reason?: string | null;
  /** `nextCursor` of the previous call with this filter, unchanged. */
  cursor?: string | null;
};

/** `POST /v1/dead-letters/requeue`. */
export type BulkRequeue = {
  filter?: DeadLetterFilter;
  /** Required for an empty filter. */
  all?: boolean;
  /** Only counts the selected dead letters. */
  dryRun?: boolean;
  /** `nextCursor` of the previous call with this filter, unchanged. */
  cursor?: string | null;
};

/** `POST /v1/runs/{id}/cancel`. */
export type Cancel = {
  reason?: string | null;
  expectedVersion?: number | null;
};

/** The effect of a write on one record or link. */
export type Change = {
  /** Counted within the namespace, from 1. */
  change: number;
  at: string;
  /** The verb: `store.set`, `store.delete`, `store.increment`, `store.expire`, `links.upsert` or `links.delete`. */
  action: string;
  /** The key of the record; null for a link. */
  key: string | null;
  /** The id of the link; null for a record. */
  linkId: string | null;
  /** The revision of a record that was written. */
  revision: number | null;
  /** The type of a value that was written. */
  valueType: ValueType | null;
  /** When a record that was written expires. */
  expiresAt: string | null;
  /** The value of a record; of a link, its sides, its relation and, unless it was deleted, its attributes. Absent if a record was deleted, and if the value has more than 16 KiB. */
  value?: unknown;
  /** In place of a value of more than 16 KiB. */
  omitted: OmittedValue | null;
  /** `key:` and the id of an API key; `person:`, the issuer, `/` and the id of a person; `run:` and the id of a run; or a part of the server. */
  actor: string;
  /** The run whose step made the change. */
  run: string | null;
  /** The key of the step. */
  step: string | null;
};

/** Options to set; missing ones do not change. */
export type ChangedOptions = {
  /** Whether javascript nodes may use `fetch`. */
  fetch?: boolean | null;
  /** The role map: from roles of people to permissions. It replaces the whole map of the workspace; for roles that it does not contain, the role map of the server applies. */
  roles?: { [name: string]: string } | null;
  /** The address that receives the mails of the workspace as signed webhooks. Null removes it, with `notifySecret`. */
  notifyUrl?: string | null;
  /** The name of the secret of the workspace that signs these webhooks; a `notifyUrl` needs it. */
  notifySecret?: string | null;
};

/** `PATCH /v1/workspaces/{name}`. */
export type ChangedWorkspace = {
  options: ChangedOptions;
};

/** A page of changes, oldest first. */
export type Changes = {
  changes: Change[];
  /** `after` of the next page; null on the last one. */
  nextAfter: number | null;
};

/** A condition on one record: exactly one of `revision`, `change`, `exists` and `equals`. */
export type Check = {
  key: string;
  /** The revision of the record; 0: it is absent. */
  revision?: number | null;
  /** The change of the record; 0: it is absent. */
  change?: number | null;
  exists?: boolean | null;
  /** The value of the record: fields in any order, numbers in any notation. */
  equals?: unknown;
};

/** `POST /v1/workflows/{name}/clone`. */
export type Clone = {
  /** The new workflow's name. */
  name: string;
  /** The version to clone; the active one by default. */
  version?: number | null;
  /** Whether runs of the new workflow use this version. */
  activate?: boolean;
};

/** An event in the JSON format of CloudEvents 1.0. Its `type` is the topic. */
export type CloudEvent = {
  /** `1.0`. */
  specversion: "1.0";
  id: string;
  source: string;
  type: string;
  subject?: string | null;
  /** A media type of JSON; `application/json` by default. */
  datacontenttype?: string | null;
  dataschema?: string | null;
  time?: string | null;
  data?: unknown;
};

export type CloudEvents = CloudEvent[];

/** The variables of a run's steps. */
export type Context = {
  /** The last entry that is included. */
  seq: number;
  /** Variables by name, including `input`. Of a run of code: `input`, and under `steps` the output of each step. */
  context: { [name: string]: unknown };
  /** The iterations in progress, each with its own variables. */
  scopes: Scope[];
};

/** A value of the context that changed. */
export type ContextChange = {
  /** Such as `order.total`. */
  path: string;
  /** Missing for a value that is new. */
  before?: unknown;
  /** Missing for a value that was removed. */
  after?: unknown;
};

export type ContextSetData = {
  values: unknown;
};

/** `POST /v1/runs/{id}/pause`, `resume` and `retry`. */
export type Control = {
  expectedVersion?: number | null;
};

/** `POST /workflow-engine/definitions`. */
export type CreateDefinitionRequest = {
  /** The name of the workflow; the field `workflow` of the DSL by default. Also accepted as `workflow_code`. */
  workflowCode?: string | null;
  dsl: Definition;
  /** Whether new runs use this version from now on; the active version stays by default. Also accepted as `is_active`. */
  isActive?: boolean;
};

/** A new API key: with a role, or with permissions of its own. */
export type CreateKeyRequest = KeyWithRole | KeyWithPermissions;

/** `POST /v1/workflows`. */
export type CreateWorkflowRequest = {
  name: string;
  definition: Definition;
  /** Whether new runs use this version from now on. */
  activate?: boolean;
  /** Its purpose; the same as `description` in the definition. */
  description?: string | null;
};

/** `POST /v1/workspaces`. */
export type CreateWorkspaceRequest = {
  name: string;
  options?: ChangedOptions;
};

/** A value that is too large to be sent with others. */
export type Cut = {
  /** Its size. */
  $cut: number;
};

/** The data of an entry, by its event. */
export type Data = RunStartedData | Dispatched | StepCompletedData | StepFailedData | TimerSetData | ContextSetData | RunPausedData | RunCompletedData | RunFailedData | RunCancelledData | TurnStartedData | TurnLostData | WaitOpenedData | Resolved | SignalBufferedData | TransitionAppliedData | VoteCastData | AssignedData | { [name: string]: unknown } | UnreadableData;

/** A data source under its name. `source` is its definition. */
export type DataSource = {
  name: string;
  /** The definition, with the defaults of missing fields. */
  source: { [name: string]: unknown };
  createdAt: string;
  updatedAt: string;
};

export type DataSources = {
  dataSources: DataSource[];
  nextCursor: string | null;
};

/** The state of a database. */
export type Database = {
  /** `sqlite` or `postgres`. */
  kind: string;
  /** `ok`, `unavailable`, or `full` while new work is rejected because the disk is full. */
  status: string;
  error: string | null;
};

/** Work that failed permanently. */
export type DeadLetter = {
  id: string;
  /** `dead`: all attempts failed. `queued`: it was requeued. `delivered`: a requeue succeeded. `discarded`: a caller has discarded it. */
  status: "dead" | "queued" | "delivered" | "discarded";
  /** `delivery`: a side effect of a state machine. `start`: a workflow that an event could not start. */
  source: "delivery" | "start";
  /** The kind of the work, such as `webhook`. */
  kind: string;
  /** The run to which the work belongs. */
  run: string | null;
  workflow: string | null;
  step: string | null;
  /** The id that the receiver gets, the same for all attempts and requeues. */
  deliveryId: string;
  /** The entry in the history of the run that decided the work. */
  historyId: string | null;
  event: string | null;
  subscription: string | null;
  /** The receiver, without the query and credentials of a URL. */
  target: string;
  /** All attempts, oldest first: at most 30, of which the first one is kept. */
  attempts: DeadLetterAttempt[];
  /** Why it was discarded. */
  reason: string | null;
  /** When the last of the first attempts failed. */
  createdAt: string;
  /** When the status changed. */
  changedAt: string;
  /** When operators were notified. */
  notifiedAt: string | null;
};

/** One attempt. */
export type DeadLetterAttempt = {
  /** When it began. */
  at: string;
  /** How long it took. */
  ms: number;
  /** The code of its failure, or `DELIVERED`. */
  code: string;
  message: string;
  /** The HTTP status of the response, if there was one. */
  status?: number | null;
};

/** A dead letter with its config. */
export type DeadLetterDetail = {
  id: string;
  /** `dead`: all attempts failed. `queued`: it was requeued. `delivered`: a requeue succeeded. `discarded`: a caller has discarded it. */
  status: "dead" | "queued" | "delivered" | "discarded";
  /** `delivery`: a side effect of a state machine. `start`: a workflow that an event could not start. */
  source: "delivery" | "start";
  /** The kind of the work, such as `webhook`. */
  kind: string;
  /** The run to which the work belongs. */
  run: string | null;
  workflow: string | null;
  step: string | null;
  /** The id that the receiver gets, the same for all attempts and requeues. */
  deliveryId: string;
  /** The entry in the history of the run that decided the work. */
  historyId: string | null;
  event: string | null;
  subscription: string | null;
  /** The receiver, without the query and credentials of a URL. */
  target: string;
  /** All attempts, oldest first: at most 30, of which the first one is kept. */
  attempts: DeadLetterAttempt[];
  /** Why it was discarded. */
  reason: string | null;
  /** When the last of the first attempts failed. */
  createdAt: string;
  /** When the status changed. */
  changedAt: string;
  /** When operators were notified. */
  notifiedAt: string | null;
  /** The config as it was decided; of the kind `workflow` also the `cause` of its run. A secret is its name. */
  config: unknown;
  /** The places in the config that name secrets, as JSON pointers. */
  secrets: string[];
};

/** The selection of dead letters with the status `dead`, with the fields of their list. */
export type DeadLetterFilter = {
  source?: DeadLetterSource | null;
  /** The kind of the work, such as `webhook`. */
  kind?: string | null;
  workflow?: string | null;
  run?: string | null;
  /** The code of the last failed attempt. */
  error?: string | null;
  since?: string | null;
  until?: string | null;
};

/** Where a dead letter comes from. */
export type DeadLetterSource = "delivery" | "start";

/** A page of dead letters, newest first. */
export type DeadLetters = {
  deadLetters: DeadLetter[];
  /** The cursor of the next page; null on the last one. */
  nextCursor: string | null;
};

/** The result for many dead letters. */
export type DeadLettersChanged = {
  /** The dead letters that were changed, or would be, at most 10,000. */
  matched: number;
  /** Whether the filter selects more than these. */
  hasMore: boolean;
  /** The `cursor` of the request that changes the next ones, if there are more. It changes none of these dead letters again, also if they have failed again. Null after a dry run, which changes none. */
  nextCursor: string | null;
};

/** A graph, with `nodes` and `edges`, or a state machine, with `states`. `POST /v1/workflows/validate` reports all problems of one. */
export type Definition = {
  /** For editors: `GET /v1/schemas/{style}`. */
  $schema?: string | null;
  /** For people. */
  name?: string | null;
  /** Its purpose. */
  description?: string | null;
  /** Of a graph: the JSON Schema (2020-12) that the input of every new run fits, at most 64 KiB. */
  inputSchema?: { [name: string]: unknown } | null;
  /** The trigger of the workflow: `{type: "event", topic, match?, input?}`, or `{type: "manual"}`. */
  trigger?: { [name: string]: unknown } | null;
  /** In place of `trigger`: at most 20 triggers. */
  triggers?: Array<{ [name: string]: unknown }> | null;
  /** Of a graph: a start, an end, and the nodes between them. */
  nodes?: Array<{
    /** 1 to 100 letters, digits, `_` or `-`; unique. */
    id?: string;
    /** One of the kinds of the catalogue. */
    type?: string;
    /** The config of the kind. */
    config?: { [name: string]: unknown };
  }> | null;
  /** Of a graph: the order of the nodes. */
  edges?: Array<{
    /** The id of a node. */
    source?: string;
    /** The id of a node. */
    target?: string;
    /** The handle of the source node. */
    sourceHandle?: string | null;
  }> | null;
  /** Of a state machine: its states, of which one is initial. */
  states?: Array<{
    /** 1 to 64 letters, digits, `_` or `-`; unique. */
    name?: string;
    /** Whether runs begin in this state. */
    initial?: boolean | null;
    /** Whether runs end in this state. */
    terminal?: boolean | null;
    /** The actions of the state, by name. */
    on?: { [name: string]: unknown } | null;
  }> | null;
  options?: { [name: string]: unknown } | null;
};

/** `PATCH /workflow-engine/definitions/{id}`. */
export type DefinitionChange = {
  /** A changed definition is saved as a new version. */
  dsl?: Definition | null;
  /** True: new runs use the version from now on. False: no version is active, and a start must name one. Also accepted as `is_active`. */
  isActive?: boolean | null;
};

/** The dry run of a definition. */
export type DefinitionDryRun = {
  state: string;
  /** The persons to whom the state would be assigned. */
  assigned: string[];
  votes: Votes[];
  /** When the next timer of the state would be due, if it were entered now. */
  due: string | null;
  shown: ShownFields | null;
  /** The actions of the state for the caller. */
  actions: AvailableAction[];
  /** The result of the action, if the request names one. */
  result: DryRun | null;
};

/** One problem of a definition. */
export type DefinitionError = {
  /** The place in the definition, as a JSON pointer. */
  path: string;
  message: string;
  /** A word for programs, where the problem has one of its own. */
  code?: string | null;
  /** The remedy. */
  hint?: string | null;
};

/** A page of state machines, by name. */
export type DefinitionPage = {
  definitions: DefinitionSummary[];
  /** The cursor of the next page; null on the last one. */
  nextCursor: string | null;
};

/** A state machine in lists. */
export type DefinitionSummary = {
  /** `name@version` of the active version; of the newest one if none is active. */
  id: string;
  workflowCode: string;
  version: number;
  isActive: boolean;
  latestVersion: number;
  updatedAt: string;
};

/** The problems of a definition. */
export type DefinitionValidation = {
  valid: boolean;
  errors: DefinitionError[];
};

export type DeleteWrite = {
  key: string;
  /** The revision that the record must have; 0: it must be absent. */
  ifRevision?: number | null;
  /** The change that must have written the record; 0: it must be absent. */
  ifChange?: number | null;
};

/** The answer to a request that deletes links. */
export type DeletedLinks = {
  deletedCount: number;
};

/** `POST /v1/dead-letters/{id}/discard`. */
export type DiscardRequest = {
  reason?: string | null;
};

/** The work that a dispatched step starts. */
export type Dispatched = DispatchedTask | DispatchedInstant | DispatchedPublish | DispatchedDelay | DispatchedWait | DispatchedChild | DispatchedBody | DispatchedDelivery;

export type DispatchedBody = {
  kind: "body";
  items: unknown[];
};

export type DispatchedChild = {
  kind: "child";
  run: string;
  workflow: string;
  workflowVersion?: number | null;
  input: unknown;
  waits: boolean;
  due: string | null;
};

export type DispatchedDelay = {
  kind: "delay";
  due: string;
};

/** A side effect of a state machine, as it was decided. Secrets are names in its config. */
export type DispatchedDelivery = {
  kind: "delivery";
  id: string;
  type: string;
  config: unknown;
};

export type DispatchedInstant = {
  kind: "instant";
};

/** A function publishes an event. */
export type DispatchedPublish = {
  kind: "publish";
};

export type DispatchedTask = {
  kind: "task";
};

export type DispatchedWait = {
  kind: "wait";
  event: string;
  match: unknown;
  due: string | null;
  /** The wait also accepts events that were published from this time on. */
  since?: string | null;
};

/** The result that a request would have. Nothing was written. */
export type DryRun = {
  /** Whether the request would be accepted. */
  success: boolean;
  /** Every reason for which it would be rejected. */
  reasons: ActionReason[];
  /** Whether the run would move. A vote that does not reach its quorum moves nothing. */
  applied: boolean;
  state: string | null;
  /** The state after the request, and after the actions that follow from it. */
  nextState: string | null;
  versionNo: number;
  isCompleted: boolean;
  /** Values that the definition would set in the context. */
  set: unknown;
  /** The persons to whom the next state would be assigned. */
  assigned: string[];
  /** The votes that actions of the next state would need. */
  voters: { [name: string]: NeededVotes };
  /** The timers of the next state. */
  timers: DueTimer[];
  /** The side effects, with their templates resolved. */
  events: unknown[];
  /** The run that the next state would start. */
  run: StateRun | null;
  output: unknown;
  /** Why the run would be paused after the request: an action that follows cannot be evaluated, or the actions follow each other endlessly. */
  pause: ActionReason | null;
};

/** A timer of a state. */
export type DueTimer = {
  /** The position in `after`. */
  n: number;
  due: string;
  /** The state that it leads to. */
  to: string | null;
  /** The action that it performs. */
  action: string | null;
};

/** The answer to a request that empties a namespace. */
export type EmptiedNamespace = {
  /** The number of records and links that were deleted. */
  deleted: number;
  /** Whether there are more: repeat the request. */
  more: boolean;
};

/** An empty body. */
export type Empty = { [name: string]: unknown };

/** The end of a stream. */
export type EndEvent = {
  /** The last status of the run; null if the run has not ended. */
  status: "pending" | "running" | "waiting" | "paused" | "completed" | "failed" | "cancelled" | null;
};

/** A page of a journal. */
export type Entries = {
  entries: Entry[];
  /** The `after` of the next page; null if there is none. */
  nextAfter: number | null;
};

/** One fact. */
export type Entry = {
  seq: number;
  at: string;
  event: string;
  step?: string | null;
  attempt?: number | null;
  /** The node that wrote it. */
  writer: string;
  /** The idempotency key of the signal or control that wrote it. */
  idempotencyKey?: string | null;
  /** The other data of the entry. */
  data: Data;
};

/** One entry, whole or without its values. */
export type EntryView = Entry | Head;

/** Why a step or a run failed. */
export type Error = {
  code: string;
  message: string;
  /** The step at which a run of code failed. */
  step?: string | null;
  /** The number of attempts of that step. */
  attempts?: number | null;
  /** The stack trace of the error that a function has thrown. Lists leave it out. */
  stack?: string | null;
};

/** `POST /v1/workflows/evaluate`. */
export type EvaluateDefinitionRequest = {
  /** A definition that is not saved. */
  definition?: Definition | null;
  /** In place of `definition`: the name of a saved state machine. Also accepted as `workflowCode` and `workflow_code`. */
  workflow?: string | null;
  /** A version of the saved state machine; the active one by default. */
  version?: number | null;
  /** The state in which the run would be. Also accepted as `currentState` and `current_state`. */
  state: string;
  /** The context that the run would have. */
  context?: { [name: string]: unknown } | null;
  /** The action to evaluate; without it, only the actions of the state are shown. */
  action?: string | null;
  comment?: string | null;
  /** Values that would be merged into the context. */
  data?: { [name: string]: unknown } | null;
  /** The ids of files. They are counted; whether they exist is not checked. */
  files?: string[];
  /** Another person, for admins; the caller by default. */
  as?: ImaginedPerson | null;
};

/** `POST /v1/runs/{id}/evaluate`. */
export type EvaluateRunRequest = {
  /** An action of the present state. */
  action: string;
  /** The versionNo that the caller has seen. */
  version?: number | null;
  comment?: string | null;
  /** Values that would be merged into the context. */
  data?: { [name: string]: unknown } | null;
  shown?: string | null;
  withdraw?: boolean;
  /** The ids of files. They are counted, and compared with those of the run; whether they exist is not checked. */
  files?: string[];
  /** Another person, for admins; the caller by default. */
  as?: ImaginedPerson | null;
};

/** A published event, without its data. */
export type Event = {
  id: string;
  topic: string;
  /** The publisher: the source that it has named, `api` if it has named none, or `run:` and the id of a run. */
  source: string;
  /** The id that the publisher has given to the event; otherwise `id`. */
  eventId: string;
  subject: string | null;
  /** When it was published. */
  at: string;
  /** The number of events before it in its chain: a run that an event has started publishes with the next number. */
  depth: number;
  /** The event of which it is a replay. */
  replayOf: string | null;
  /** The other attributes of a CloudEvent. */
  extensions: { [name: string]: unknown };
  /** When it had reached all subscriptions and waits; null while its fan-out continues. */
  fannedAt: string | null;
  /** What it has reached so far. */
  matched: MatchedCounts;
};

/** A published event, and a page of its results. */
export type EventDetail = {
  id: string;
  topic: string;
  /** The publisher: the source that it has named, `api` if it has named none, or `run:` and the id of a run. */
  source: string;
  /** The id that the publisher has given to the event; otherwise `id`. */
  eventId: string;
  subject: string | null;
  /** When it was published. */
  at: string;
  /** The number of events before it in its chain: a run that an event has started publishes with the next number. */
  depth: number;
  /** The event of which it is a replay. */
  replayOf: string | null;
  /** The other attributes of a CloudEvent. */
  extensions: { [name: string]: unknown };
  /** When it had reached all subscriptions and waits; null while its fan-out continues. */
  fannedAt: string | null;
  /** What it has reached so far. */
  matched: MatchedCounts;
  data: unknown;
  results: EventResult[];
  /** The cursor of the next page of results; null on the last one. */
  nextCursor: string | null;
};

/** One result of an event's fan-out. */
export type EventResult = EventResultRun | EventResultWait | EventResultFailed;

/** The subscription could not start a run, or its expression failed. */
export type EventResultFailed = {
  type: "failed";
  subscription: string;
  code: string;
  message: string;
};

/** The subscription has started a run. */
export type EventResultRun = {
  type: "run";
  subscription: string;
  run: string;
};

/** An open wait of a run has received the event. */
export type EventResultWait = {
  type: "wait";
  run: string;
  step: string;
};

/** A page of events, newest first. */
export type Events = {
  events: Event[];
  /** The cursor of the next page; null on the last one. */
  nextCursor: string | null;
};

/** A valid config, and its purpose. */
export type Example = {
  title: string;
  config: unknown;
};

/** A version as a document that any server can import. */
export type Exported = {
  /** The document's format. */
  everstep: number;
  /** `workflow`. */
  kind: string;
  name: string;
  style: string;
  /** The exported version. */
  version: number;
  definition: Definition;
  /** SHA-256 of the definition. */
  digest: string;
};

export type FailedStep = {
  code: string;
  message: string;
  attempts: number;
};

/** The code of a failure, and the first 200 characters of its message. */
export type FailureHead = {
  code: string;
  message: string;
};

/** One problem of a definition. */
export type Fault = {
  /** A code for programs, if the kind of problem has one: `UNKNOWN_VARIABLE`, `SYNTAX_ERROR`, `UNKNOWN_SECRET`. */
  code?: string | null;
  /** The node that the problem concerns, if it concerns one. */
  node?: string | null;
  /** The place in the definition, as a JSON pointer. */
  path: string;
  message: string;
  /** The remedy. */
  hint?: string | null;
};

/** A column. */
export type Field = {
  name: string;
  /** Its type in the terms of the source. */
  type: string;
};

/** The selection of runs, with the fields of the list of runs. */
export type Filter = {
  workflow?: string | null;
  version?: number | null;
  /** The state of a machine. Ended runs are included only if `status` names a status of ended runs. */
  state?: string | null;
  /** One status, or several. */
  status?: "pending" | "running" | "waiting" | "paused" | "completed" | "failed" | "cancelled" | Array<"pending" | "running" | "waiting" | "paused" | "completed" | "failed" | "cancelled"> | null;
  since?: string | null;
  until?: string | null;
  parent?: string | null;
  /** Forks of this run. */
  origin?: string | null;
  /** The idempotency key. */
  key?: string | null;
  /** The code with which runs failed, or are paused. */
  errorCode?: string | null;
  /** Runs that a trigger has started: `event:` and the id of an event. */
  trigger?: string | null;
  /** The beginning of ids, at least eight letters; or the name of a workflow. */
  text?: string | null;
  /** Values at paths of the input: `{"order.id": 7}`. */
  input?: { [name: string]: unknown };
  /** Values of tags. */
  tags?: { [name: string]: string };
};

/** `POST /v1/runs/{id}/fork`. */
export type Fork = {
  /** The last entry to copy; without it, the last entry before the end of the run. */
  at?: number | null;
};

/** A run that continues from another. */
export type Forked = {
  run: Run;
  /** False if a fork with that idempotency key existed before. */
  created: boolean;
  /** The last entry that both runs share: the end of the item with the requested entry. */
  forkedAt: number;
  notUndone: NotUndone;
};

/** The result for many runs. */
export type Gathered = {
  /** The runs that the filter selects, up to the limit. */
  matched: number;
  accepted: number;
  /** Runs that did not change: they already had the status, or the control was applied before. */
  ignored: number;
  /** Runs that rejected the control, or could not be reached. */
  refused: number;
  /** The first rejections, at most 20. */
  errors: Refusal[];
  /** The cursor for the rest; null if there is none. */
  nextCursor: string | null;
};

/** An exit of a node. */
export type Handle = {
  name: string;
  /** When the node completes with it. */
  summary: string;
};

/** An entry without its values. */
export type Head = {
  seq: number;
  at: string;
  event: string;
  step?: string | null;
  attempt?: number | null;
  /** The handle with which a step completed. */
  handle?: string | null;
  /** The work that a dispatched step starts. */
  dispatch?: "task" | "instant" | "publish" | "delay" | "wait" | "child" | "body" | "delivery";
  /** When a step continues without an input. */
  due?: string | null;
  /** The run that a step starts. */
  child?: string | null;
  /** The name of a signal. */
  signal?: string | null;
  error?: FailureHead | null;
  /** The turn of a worker. */
  turn?: number | null;
  /** The first 200 characters of the reason of a cancellation. */
  reason?: string | null;
  /** When a worker began the attempt. */
  startedAt?: string | null;
  /** The size of the values that were left out. */
  bytes: number;
  /** The number of log lines that were left out. */
  logLines: number;
  /** The updates that follow from the entry. A reader that applies all of them, in order, has the run as it is. */
  updates: HeadUpdate[];
};

/** A change of the run, or of one of its steps. */
export type HeadUpdate = HeadUpdateRun | HeadUpdateStep;

export type HeadUpdateRun = RunHeadUpdate & {
  of: "run";
};

export type HeadUpdateStep = StepHeadUpdate & {
  of: "step";
};

/** A page of heads. */
export type Heads = {
  entries: Head[];
  /** The `after` of the next page; null if there is none. */
  nextAfter: number | null;
};

/** A turn that the worker holds. */
export type HeldTurn = {
  run: string;
  turn: number;
};

/** A page of a history, oldest first. */
export type History = {
  entries: HistoryEntry[];
  /** The cursor of the next page; null on the last one. */
  nextCursor: string | null;
};

/** A transition, a vote, an assignment or a timer. */
export type HistoryEntry = {
  id: string;
  /** The entry of the journal. */
  seq: number;
  at: string;
  kind: HistoryKind;
  /** The action; `@start` for the start of the run; for a timer, its name. */
  action: string | null;
  from: string | null;
  to: string | null;
  versionNo: number;
  by: Actor;
  onBehalfOf: Actor | null;
  /** The comment of a request, or the reason of an assignment. */
  comment: string | null;
  /** The files that were decided on. */
  files: HistoryFile[];
  /** The voters that reached the quorum. */
  votes: Actor[];
  /** Whether a vote was withdrawn. */
  isWithdrawn: boolean;
  /** The digest of the values that were shown to the person. */
  shown: string | null;
  /** `{who}`: the persons to whom the state was assigned; or `{voter: {from, to}}`: the voter that was replaced. */
  assignment: unknown;
  /** The values of the context that changed. */
  changes: ContextChange[];
};

/** A file of an entry. `GET /v1/files/{id}` returns its bytes. */
export type HistoryFile = {
  id: string;
  /** The name; null after the file is deleted. */
  name: string | null;
  /** The number of bytes; null after the file is deleted. */
  size: number | null;
  /** The media type; null after the file is deleted. */
  mediaType: string | null;
  /** Whether the file is deleted. The files of a fork are deleted with the run that the fork was made from. */
  isDeleted: boolean;
};

export type HistoryKind = "transition" | "vote" | "assignment" | "timer";

/** The credentials for a service. */
export type HttpAuth = HttpAuthBearer | HttpAuthBasic;

export type HttpAuthBasic = {
  type: "basic";
  username: string;
  password: SecretRef;
};

export type HttpAuthBearer = {
  type: "bearer";
  token: SecretRef;
};

export type HttpMethod = "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE";

/** A request of an HTTP source. */
export type HttpRequest = {
  method?: HttpMethod;
  /** The path after the source's base URL, such as `/customers/{id}/orders`; `{id}` is the argument `id`. */
  path: string;
  /** The parameters after the `?`: strings, numbers, booleans, or `{"$arg": "name"}`. An argument that is null is left out. */
  query?: { [name: string]: unknown };
  /** Sent as JSON; `{"$arg": "name"}` anywhere in it is replaced by that argument. */
  body?: unknown;
  /** The place of the rows in the response, as a JSON pointer; by default the whole response. */
  rows?: string | null;
};

/** One side of a link: a type and an id that you choose, such as the order `7`. */
export type Identifier = {
  /** 1 to 256 characters. */
  type: string;
  /** 1 to 256 characters. */
  id: string;
};

/** A person, for a dry run. */
export type ImaginedPerson = {
  /** The person's id at the identity provider. */
  user: string;
  /** The roles of the person's token. */
  roles?: string[];
};

/** A page of the inbox, oldest run first. */
export type Inbox = {
  inbox: InboxItem[];
  /** The cursor of the next page; null on the last one. */
  nextCursor: string | null;
};

/** One decision that the caller can make. */
export type InboxItem = {
  /** `wait`: an approval, which is answered by the signal with `{"approved": true}` or `{"approved": false}`. Later releases add kinds. */
  kind: string;
  run: string;
  workflow: string;
  step: string;
  /** The name of the signal. */
  signal: string;
  /** The JSON that the payload of the signal must contain. */
  match: unknown;
  /** The name of the step in the definition. */
  title: string | null;
  since: string | null;
  /** When the wait ends without a decision. */
  due: string | null;
  /** The config of the wait, as it was evaluated. */
  about: { [name: string]: unknown } | null;
};

/** `POST /v1/store/{namespace}/{key}/increment`. */
export type IncrementRecordRequest = {
  /** The number to add; 1 by default. */
  by?: number | null;
  /** The value before the first increment; 0 by default. */
  initial?: number | null;
  /** The seconds after which a record that this request creates expires. An existing record keeps its expiry. */
  ttlSeconds?: number | null;
};

export type IncrementWrite = {
  key: string;
  /** The number to add; 1 by default. */
  by?: number | null;
  /** The value before the first increment; 0 by default. */
  initial?: number | null;
  /** The seconds after which a record that this write creates expires. */
  ttlSeconds?: number | null;
};

/** A run of a state machine. */
export type Instance = {
  id: string;
  workflowCode: string;
  workflowVersion: number;
  status: InstanceStatus;
  state: string;
  versionNo: number;
  /** The names of the actions that the caller can perform now. */
  availableActions: string[];
  /** All actions of the state, with the reasons why the caller cannot perform them. */
  actions: AvailableAction[];
  /** The persons to whom the state is assigned. */
  assigned: string[];
  context: unknown;
  /** The person or program that started it. */
  startedBy: Actor | null;
  /** When the state was entered. */
  since: string;
  /** When the next timer of the state is due. */
  due: string | null;
  createdAt: string;
  endedAt: string | null;
};

/** The status of an instance. A run that has failed is terminated. */
export type InstanceStatus = "ACTIVE" | "COMPLETED" | "CANCELLED" | "TERMINATED";

/** Entries, whole or without their values. */
export type JournalView = Entries | Heads;

/** An API key. The key itself is shown only when it is created. */
export type Key = {
  id: string;
  name: string;
  /** None if the key has a list of permissions. */
  role: string | null;
  permissions: string[];
  /** Requests per second, 0 for no limit; none if the server's default limit applies. */
  rateLimit: number | null;
  createdAt: string;
  expiresAt: string | null;
  revokedAt: string | null;
};

/** A new API key with permissions of its own. */
export type KeyWithPermissions = {
  /** The purpose of the key, for people. */
  name: string;
  permissions: Permission[];
  /** The key is rejected after this time. */
  expiresAt?: string | null;
  /** Requests per second, on each node; 0 for no limit. */
  rateLimit?: number | null;
};

/** A new API key with the permissions of a role. */
export type KeyWithRole = {
  /** The purpose of the key, for people. */
  name: string;
  role: Role;
  /** The key is rejected after this time. */
  expiresAt?: string | null;
  /** Requests per second, on each node; 0 for no limit. */
  rateLimit?: number | null;
};

/** A page of API keys, oldest first. */
export type Keys = {
  keys: Key[];
  /** The cursor of the next page; null on the last one. */
  nextCursor: string | null;
};

/** A kind of node. */
export type Kind = {
  /** The node's `type`. */
  name: string;
  /** A title for people. */
  title: string;
  /** The group in which an editor lists it. */
  group: string;
  /** The name of an icon. */
  icon: string;
  /** Its purpose, in one sentence. */
  summary: string;
  /** Its handles. */
  handles: Handle[];
  /** Where in the config more handles are named, as a JSON pointer in which `*` is any one part. */
  handlesFrom?: string[];
  /** The handle of an edge that names none; without it every edge must name one. */
  defaultHandle?: string | null;
  /** A description of the output. */
  output: string;
  /** The variable that receives the output if a node names none. */
  outputVariable?: string | null;
  /** Whether a failed attempt may be retried. */
  canRetry: boolean;
  /** Whether an attempt may have a time limit, and its bounds. */
  timeout?: Timeout | null;
  /** The defaults of the config. */
  defaults: unknown;
  /** The JSON Schema of the config. Fields that accept a secret are marked with `x-secret`. */
  schema: unknown;
  examples: Example[];
  /** Whether it is for tests and benchmarks only. */
  isInternal: boolean;
};

/** All kinds of nodes. */
export type Kinds = {
  kinds: Kind[];
};

/** The limits of the result. */
export type Limits = {
  rows?: number;
  /** Bytes of the rows as JSON. */
  bytes?: number;
  onLimit?: OnLimit;
};

/** A line that a step has written. */
export type Line = {
  /** The entry of the journal that contains it. */
  seq: number;
  step: string;
  attempt: number;
  /** When the attempt ended. */
  at: string;
  line: string;
};

/** A typed edge between two identifiers. */
export type Link = {
  linkId: string;
  from: Identifier;
  to: Identifier;
  relation: string;
  attributes: { [name: string]: unknown };
  /** The number of the namespace's change that wrote it. */
  change: number;
  createdAt: string;
  updatedAt: string;
  /** Who wrote it. Lists leave it out. */
  writtenBy?: Author | null;
};

/** The other side of a link that was looked up. */
export type LinkMatch = {
  linkId: string;
  type: string;
  id: string;
  relation: string;
  attributes: { [name: string]: unknown };
};

/** A page of a lookup. */
export type LinkMatches = {
  matches: LinkMatch[];
  /** The cursor of the next page; null on the last one. */
  nextCursor: string | null;
};

/** A page of links, by their two sides and their relation. */
export type Links = {
  links: Link[];
  /** The cursor of the next page; null on the last one. */
  nextCursor: string | null;
};

/** A page of log lines. */
export type Logs = {
  logs: Line[];
  /** The cursor of the next page; null on the last one. */
  nextCursor: string | null;
};

export type LogsOrCut = string[] | Cut;

/** The place of a run in its state machine. */
export type Machine = {
  state: string;
  /** The number of transitions, the start included. A transition that names another one is rejected. */
  versionNo: number;
  enteredAt: string;
  /** When the next timer of the state is due. */
  due: string | null;
  /** The persons to whom the state is assigned. */
  assigned: string[];
  /** The votes of each action that needs several. */
  votes: Votes[];
};

/** One version of a state machine. */
export type MachineDefinition = {
  /** `name@version`. */
  id: string;
  workflowCode: string;
  version: number;
  /** Whether new runs use it. */
  isActive: boolean;
  /** The version that new runs use; null if none is active. */
  activeVersion: number | null;
  dsl: Definition;
  /** SHA-256 of the definition. */
  digest: string;
  createdAt: string;
};

/** A change of a state machine's run. */
export type MachineHeadUpdate = {
  action?: string | null;
  from?: string | null;
  to?: string | null;
  versionNo?: number | null;
  /** The actor: a person's id, `key:…`, `run:…`, or a part of the server such as `@timer`. */
  by: string;
};

/** A created key. */
export type MadeKey = {
  key: Key;
  /** The key itself, `es_…`, shown only once; null if it was created before, under the same `Idempotency-Key`. */
  secret: string | null;
};

/** A created workspace, with an admin API key. */
export type MadeWorkspace = {
  workspace: Workspace;
  key: Key;
  /** The API key itself, `es_…`, shown only once. */
  secret: string;
};

/** What an event has reached. */
export type MatchedCounts = {
  /** Runs that it has started. */
  workflows: number;
  /** Queues that have received it. */
  queues: number;
  /** HTTP targets. */
  http: number;
  /** Open waits that have received it. */
  waits: number;
  /** Subscriptions that could not start a run, or whose expression failed. */
  failed: number;
};

/** The caller. */
export type Me = {
  workspace: MyWorkspace;
  /** Null if the caller is a person. */
  key: MyKey | null;
  /** Null if the caller is the holder of a key. */
  person: MyPerson | null;
  /** All permissions of the key or the person. */
  permissions: Permission[];
  /** The subsystems of this build, such as `graph` and `machine`. Later releases add names. */
  features: string[];
  /** The bounds of the workspace, and how much of them is used. */
  quotas: Quota[];
  server: ServerInfo;
};

export type MyKey = {
  id: string;
  name: string;
  role: string | null;
  rateLimit: number | null;
  expiresAt: string | null;
};

/** A person, as the identity provider describes them. */
export type MyPerson = {
  issuer: string;
  /** Unique among the people of the issuer. */
  id: string;
  name: string | null;
  email: string | null;
  roles: string[];
  /** When the token expires. */
  expiresAt: string | null;
};

export type MyWorkspace = {
  id: string;
  name: string | null;
};

/** A named group of records and links. */
export type Namespace = {
  name: string;
  /** The number of its records. An expired one counts until it is swept. */
  keys: number;
  /** The number of its links. */
  links: number;
  /** Bytes of values and attributes. */
  bytes: number;
  /** The number of its last change. Changes are counted from 1 without a gap. */
  changes: number;
  /** The time of its last change. */
  updatedAt: string;
};

/** A page of namespaces, by name. */
export type Namespaces = {
  namespaces: Namespace[];
  /** The cursor of the next page; null on the last one. */
  nextCursor: string | null;
};

/** The votes that an action needs. */
export type NeededVotes = {
  of: string[] | null;
  need: number;
};

/** One server. */
export type Node = {
  id: string;
  /** The address at which other nodes reach it. */
  address: string | null;
  /** None if no other node can use the database: such a node needs no lease. */
  leaseUntil: string | null;
  /** Whether its lease has expired by the database's clock. */
  isExpired: boolean;
  /** Whether it was fenced: it writes nothing, and other nodes continue its runs. */
  isFenced: boolean;
  /** Whether it is the node of this response. */
  isSelf: boolean;
  /** The number of runs that it owns. */
  runs: number;
  /** The difference between the wall clock of its machine and the clock that all nodes follow, positive if the wall clock is ahead. Only the node of this response knows its own; null for the others. */
  skewMs: number | null;
};

/** The servers that share a database. */
export type Nodes = {
  nodes: Node[];
};

/** The external effects of the original, which no fork undoes. */
export type NotUndone = {
  /** Runs that the original has started, at most 1,000. The fork starts its own. */
  children: StartedChild[];
  /** Steps that the original has begun and that the fork performs again, or may perform again; at most 1,000. */
  steps: string[];
  /** Those of the steps that write records or links; at most 1,000. The writes of the original remain, and the fork writes again. */
  writes: string[];
};

/** The member that every report must have. */
export type NumberedReport = {
  /** The number by which the report is answered. */
  n: number;
};

/** `POST /v1/workflow-runs`. */
export type OfDefinition = {
  /** The workflow's name. */
  definitionId: string;
  input?: { [name: string]: unknown };
  /** A workspace has one run per idempotency key, however often it is started. */
  idempotencyKey?: string | null;
  /** Starts the run although no worker has ever registered the workflow: the run waits for a worker. Default: a start of an unknown name is rejected. */
  allowUnserved?: boolean;
};

/** `POST /v1/workflows/{name}/runs`. */
export type OfWorkflow = {
  input?: unknown;
  /** From 1 to 2,147,483,647; the active version by default. */
  version?: number | null;
  /** A workflow has one run per idempotency key, however often it is started. It has 1 to 255 characters. */
  idempotencyKey?: string | null;
  /** The number of days for which the run is kept after its end: at most the limit of the server; 0 means 1. */
  retentionDays?: number | null;
  /** Tags for finding the run. */
  tags?: { [name: string]: string };
  /** When the run begins, at most 365 days from now; until then it is pending. A time in the past is now. */
  startAt?: string | null;
  /** The seconds after which the run begins, in place of `startAt`; at most 365 days. */
  delaySeconds?: number | null;
  /** Starts the run although no worker has ever registered the workflow: the run waits for a worker. Default: a start of an unknown name is rejected. */
  allowUnserved?: boolean;
};

/** A value that is too long for the history. */
export type OmittedValue = {
  bytes: number;
  /** SHA-256 of its JSON text, in hexadecimal digits. */
  sha256: string;
};

/** The effect of a larger result. */
export type OnLimit = "error" | "cut";

/** A step in progress. */
export type Open = {
  step: string;
  /** `task`: a handler performs it. `delay`: it sleeps. `wait`: it waits for a signal. `child`: it waits for a run that it started. `retry`: it failed and is retried. `body`: steps inside it are in progress. `soon`: it continues at once. */
  kind: "task" | "delay" | "wait" | "child" | "retry" | "body" | "soon";
  attempt: number;
  since: string | null;
  /** When it continues without an input. */
  due?: string | null;
  /** The signal that it waits for. */
  event?: string | null;
  /** The JSON that the payload of the signal must contain; missing if any payload is accepted. */
  match?: unknown;
  /** Whether it waits for the decision of a person: the signal contains `approved`. */
  approval: boolean;
  /** The config of a wait in a graph, as it was evaluated. */
  about?: { [name: string]: unknown } | null;
  /** The run that it started. */
  child?: string | null;
};

/** The outcome of a signal or a control. */
export type Outcome = {
  /** `accepted`: it is in the journal. `buffered`: it is stored until a wait for it is opened. `repeated`: it was accepted before, under the same idempotency key. `ignored`: it changes nothing. */
  outcome: "accepted" | "buffered" | "repeated" | "ignored";
  /** Why nothing was changed. */
  reason?: string | null;
};

/** * `workflow:read`: Read definitions of workflows, and records and links. * `workflow:view`: Read runs, with their data and journals; read events and subscriptions. * `workflow:act`: Act in runs of state machines that concern the caller. `workflow:manage` implies it. * `workflow:manage`: Start, signal, pause, resume, retry and cancel runs; write records and links; publish events. * `workflow:publish`: Save definitions of workflows, and subscriptions. * `workflow:admin`: Everything, for workflows, nodes and keys. * `worker:serve`: Perform steps for runs of workflows written as code. */
export type Permission = "workflow:read" | "workflow:view" | "workflow:act" | "workflow:manage" | "workflow:publish" | "workflow:admin" | "worker:serve";

/** `POST /v1/workflows/import`: an exported document. */
export type Portable = {
  /** The document's format: 1. */
  everstep: number;
  /** `workflow`. */
  kind: "workflow";
  name: string;
  /** How it is written. */
  style?: "graph" | "machine" | null;
  /** The version in the exporting server; the importing server assigns a new number. */
  version?: number | null;
  definition: Definition;
  digest?: string | null;
};

/** Why a request was not served (RFC 9457). */
export type Problem = {
  type: string;
  title: string | null;
  status: number;
  /** A stable code for programs. */
  code: string;
  /** What happened, for people. */
  detail: string;
};

/** An event to be published. */
export type PublishEvent = {
  topic: string;
  /** Any JSON, at most 1 MiB; null by default. */
  data?: unknown;
  /** An event is published once per source and id, for as long as the event is kept. */
  id?: string | null;
  /** The part of your system in which the fact occurred; `api` by default. */
  source?: string | null;
  /** What the fact is about, within its source. */
  subject?: string | null;
};

/** Events to be published together. Each is accepted or rejected separately. */
export type PublishEvents = {
  events: PublishEvent[];
};

/** `POST /v1/events`: one event, or many. */
export type PublishRequest = PublishEvent | PublishEvents;

/** The response to a publish of one event, or of many. */
export type PublishResponse = PublishedEvent | PublishedEvents;

/** An event that was published. */
export type PublishedEvent = {
  /** The id of the event on this server. */
  id: string;
  topic: string;
  /** False if an event with this source and id was published before. */
  created: boolean;
  /** What the event has reached, once its fan-out is done. Absent before. */
  matched?: MatchedCounts | null;
};

/** The response to a publish of many events, in their order. */
export type PublishedEvents = {
  events: PublishedItem[];
};

/** The result of one event of many: the event, or an error. */
export type PublishedItem = {
  /** The id of the event on this server. */
  id?: string | null;
  topic?: string | null;
  /** False if an event with this source and id was published before. */
  created?: boolean | null;
  /** What the event has reached, once its fan-out is done. */
  matched?: MatchedCounts | null;
  /** Why it was not published. */
  error?: Problem | null;
};

/** A statement or a request for a source. */
export type Query = {
  /** The name of the data source. */
  source: string;
  /** A description for people. */
  description?: string | null;
  /** One statement for a database; arguments are written as `:name`. */
  sql?: string | null;
  /** One request for an HTTP source. */
  http?: HttpRequest | null;
  arguments?: Argument[];
  /** Whether nothing may be written. Writing needs `false` here and on the source. */
  readOnly?: boolean;
  limits?: Limits;
  /** The time limit; a shorter limit of the step applies as well. */
  timeoutSeconds?: number | null;
};

/** The result of a query. It is sent as the collected text; this type describes it. */
export type QueryAnswer = {
  rows: unknown[];
  /** The number of rows; of a statement that returns none, the number of changed rows. */
  rowCount: number;
  fields: Field[];
  /** Whether there were more rows than the limits allow. */
  truncated: boolean;
};

/** The parameters of running a saved query. */
export type QueryRun = {
  /** The arguments, by name. */
  args?: { [name: string]: unknown } | null;
  /** The maximum number of rows; others are cut off. */
  limit?: number | null;
};

/** A bound of the workspace. A request beyond it is rejected: with 409 `QUOTA_REACHED`, or 429 `TOO_MANY_STREAMS`. */
export type Quota = {
  /** The bounded things: `workflows`, `keys`, or `streams` of the node that has answered. Later releases add names. */
  name: string;
  /** How many exist; the number may be five seconds old. */
  used: number;
  /** How many are allowed. */
  max: number;
  /** The setting of the server that raises the bound; null if there is none. */
  setting: string | null;
};

/** Whether a node can work. */
export type Readiness = {
  /** `ok` or `unavailable`. */
  status: string;
  node: string;
  store: Database;
  /** The number of runs in its memory. */
  activeRuns: number;
  /** Whether other nodes have fenced it. */
  fenced: boolean;
  /** Whether its recent heartbeats to the database succeeded. */
  inTouch: boolean;
  /** The difference between the machine's clock and the clock that runs are stamped with (positive: the machine's is ahead), if it is more than a second. Nodes that share a database use its clock; a server alone uses its own, which never goes back when the machine's clock is corrected. */
  clockSkewSeconds?: number | null;
};

/** A JSON value under a key of a namespace. */
export type Record = {
  key: string;
  /** The value, exactly as it was written. A list with `values=false` leaves it out. */
  value?: unknown;
  valueType: ValueType;
  /** 1 at the creation, one more with every write. */
  revision: number;
  /** The number of the namespace's change that wrote it: its `ETag`. It is never used again, not even after a deletion. */
  change: number;
  /** When it expires; null if it does not. */
  expiresAt: string | null;
  createdAt: string;
  updatedAt: string;
  /** Who wrote it. Lists leave it out. */
  writtenBy?: Author | null;
};

/** A page of records, by key. */
export type Records = {
  records: Record[];
  /** The cursor of the next page; null on the last one. */
  nextCursor: string | null;
};

export type Refusal = {
  run: string;
  code: string;
  message: string;
};

export type RefusedReport = {
  n: number;
  code: string;
  detail: string;
};

/** `POST /v1/events/{id}/replay`. */
export type ReplayRequest = {
  /** The only subscription that receives the event again. */
  subscription: string;
};

/** How a wait ended. */
export type Resolved = ResolvedSignal | ResolvedEvent | ResolvedTimeout;

export type ResolvedEvent = {
  by: "event";
  event: ResolvingEvent;
  data: unknown;
};

export type ResolvedSignal = {
  by: "signal";
  event: string;
  payload: unknown;
  /** The entry that buffered the signal, if it arrived before the wait. */
  buffered?: number | null;
};

export type ResolvedTimeout = {
  by: "timeout";
};

/** A published event that has resolved a wait. */
export type ResolvingEvent = {
  id: string;
  topic: string;
  source: string;
  /** When it was published. */
  at: string;
};

/** A usual set of permissions. A key has a role, or a list of permissions. */
export type Role = "viewer" | "operator" | "publisher" | "admin" | "worker";

/** A run with all its fields. */
export type Run = {
  id: string;
  workflow: string;
  workflowVersion: number;
  status: "pending" | "running" | "waiting" | "paused" | "completed" | "failed" | "cancelled";
  /** Increases with every change; `If-Match` and `expectedVersion` are compared with it. */
  version: number;
  input: unknown;
  output: unknown;
  error: Error | null;
  parent: string | null;
  /** The run that it was forked from. */
  origin: string | null;
  /** The event that has started it; null if a caller or another run has. */
  trigger: RunTrigger | null;
  /** Test runs are neither listed nor counted. */
  isTest: boolean;
  /** The time, signal, child run or worker that it waits for, as a sentence without its subject, such as `sleeps at step nap until …`. Null after its end. */
  waitingFor: string | null;
  /** The place of a run of a state machine; null for other runs. */
  machine: Machine | null;
  /** The worker that holds the run, if it is code and the node of this response owns it. */
  worker: string | null;
  /** The steps in progress, at most 100. */
  open: Open[];
  /** Steps that the function had not awaited when it ended: they were still running, or had failed. An `await` may be missing. */
  unawaited: string[];
  tags: unknown;
  idempotencyKey: string | null;
  retentionDays: number;
  /** The node that holds the run in memory; none while it sleeps in the database. */
  owner: string | null;
  /** When a run without an owner continues without an input. */
  wakeAt: string | null;
  /** When a run that has not begun is to begin, also while it is paused; missing if its start named no time. */
  startAt?: string | null;
  createdAt: string;
  endedAt: string | null;
};

export type RunCancelledData = {
  reason: string | null;
};

export type RunCompletedData = {
  output: unknown;
  /** Steps that the function did not await before it returned. */
  unawaited?: string[];
};

export type RunFailedData = {
  /** With `stack` if the function has thrown an error that has one. */
  error: unknown;
  failedStep?: string | null;
  /** Steps that the function did not await before it ended. */
  unawaited?: string[];
};

/** A change of the run itself. */
export type RunHeadUpdate = {
  /** The entry that caused it. */
  seq: number;
  at: string;
  /** The kind of a change of the run. */
  change: "started" | "turnStarted" | "turnLost" | "moved" | "voted" | "assigned" | "paused" | "resumed" | "retried" | "completed" | "failed" | "cancelled";
  /** Why the run failed or was paused. */
  failure?: FailureHead | null;
  /** The step that caused the failure of the run. */
  failedStep?: string | null;
  /** Steps that the function did not await before it ended. */
  unawaited?: string[];
  reason?: string | null;
  /** The worker that received a turn. */
  worker?: string | null;
  /** The transition, vote or assignment of a state machine. */
  machine?: MachineHeadUpdate | null;
};

export type RunPausedData = {
  reason: unknown;
};

export type RunStartedData = {
  input: unknown;
  parent?: unknown;
  /** The event that has started the run, or the first of its ancestors. */
  trigger?: RunTrigger | null;
  definition?: unknown;
};

/** A run in lists. */
export type RunSummary = {
  id: string;
  workflow: string;
  workflowVersion: number;
  status: "pending" | "running" | "waiting" | "paused" | "completed" | "failed" | "cancelled";
  /** The state of a run of a machine; null for other runs. */
  state: string | null;
  /** The number of transitions of a run of a machine, its start included; null for other runs. */
  versionNo: number | null;
  error: Error | null;
  parent: string | null;
  /** The run that it was forked from. */
  origin: string | null;
  /** The event that has started it; null if a caller or another run has. */
  trigger: RunTrigger | null;
  tags: unknown;
  createdAt: string;
  endedAt: string | null;
};

/** Why a run exists that no caller and no other run has started. */
export type RunTrigger = {
  /** `event`: a published event. */
  type: "event" | "schedule" | "webhook" | "queue";
  /** The id of the event. */
  id: string;
  topic: string | null;
  /** The subscription that has received the event. */
  subscription: string | null;
  /** The source of the event. */
  source: string | null;
  /** The number of events before this one in its chain: runs that events start publish events in turn. */
  depth: number;
  /** The time for which the run was planned; null for events. */
  scheduledFor: string | null;
};

/** A page of runs. */
export type Runs = {
  runs: RunSummary[];
  /** The cursor of the next page; null on the last one. */
  nextCursor: string | null;
  /** How many runs were examined for this page. A request examines at most 10,000: a page may have fewer runs than its limit, or none, although more of them match. */
  scanned: number;
  /** Whether there may be more runs: request the next page. */
  more: boolean;
};

export type SavedQueries = {
  queries: SavedQuery[];
  nextCursor: string | null;
};

/** A saved query under its name. `query` is its definition. */
export type SavedQuery = {
  id: string;
  /** The definition, with the defaults of missing fields. */
  query: { [name: string]: unknown };
  createdAt: string;
  updatedAt: string;
};

/** One iteration of a loop, or a scope. */
export type Scope = {
  /** As in step keys: `each[3]`. */
  scope: string;
  context: { [name: string]: unknown };
};

/** The public facts about a secret. */
export type Secret = {
  name: string;
  createdAt: string;
  updatedAt: string;
};

/** A text, or the name of a secret. */
export type SecretOrText = SecretRef | string;

/** Names a secret of the workspace. */
export type SecretRef = {
  $secret: string;
};

/** A page of secrets, by name. */
export type Secrets = {
  secrets: Secret[];
  /** The cursor of the next page; null on the last one. */
  nextCursor: string | null;
};

/** A version of a workflow that a worker serves. */
export type ServedVersion = {
  name: string;
  version: number;
};

/** A workflow that a worker serves. */
export type ServedWorkflow = {
  name: string;
  version: number;
  /** The number of days for which its runs are kept after their end. Default: 30. */
  retentionDays?: number | null;
  /** The JSON Schema (2020-12) that the input of every new run fits, at most 64 KiB. */
  inputSchema?: { [name: string]: unknown } | null;
  /** The events that start its runs, while this version is active. */
  triggers?: WorkerTrigger[];
  /** Search attributes: paths of the input, such as `order.id`, by which runs of the workflow are found in an index. */
  index?: string[];
};

/** The server that has answered. */
export type ServerInfo = {
  /** Its release. */
  version: string;
  /** Its database: `sqlite` or `postgres`. */
  store: string;
  /** The number of nodes that use the database and renew their lease. */
  nodes: number;
};

/** `PUT /v1/store/{namespace}/{key}`. */
export type SetRecordRequest = {
  /** Any JSON, at most `EVERSTEP_STORE_MAX_VALUE_BYTES` (256 KiB by default). */
  value: unknown;
  /** The type of the value; by default it follows from the value. */
  valueType?: ValueType | null;
  /** The seconds after which the record expires. Without it the record does not expire, even if it did before. */
  ttlSeconds?: number | null;
  /** The revision that the record must have; 0: it must be absent. */
  ifRevision?: number | null;
};

/** `PUT /v1/secrets/{name}`. It is never shown, not even in the log. */
export type SetSecretRequest = {
  /** The secret itself; at most 64 KiB. */
  value: string;
};

export type SetWrite = {
  key: string;
  value: unknown;
  valueType?: ValueType | null;
  ttlSeconds?: number | null;
  /** The revision that the record must have; 0: it must be absent. */
  ifRevision?: number | null;
  /** The change that must have written the record; 0: it must be absent. */
  ifChange?: number | null;
};

/** The values that are shown to the person who decides. */
export type ShownFields = {
  /** The SHA-256 of the values. A transition that carries it is rejected if they have changed. */
  digest: string;
  fields: unknown;
};

/** The key of a browser. */
export type SignIn = {
  /** The key itself, `es_…`, shown only once. */
  key: string;
  expiresAt: string;
  name: string;
};

/** The code of a one-time link. */
export type SignInCode = {
  /** `esc_…`, for `POST /v1/sign-ins`; in a link it belongs after `#code=`, which browsers do not send. */
  code: string;
  expiresAt: string;
};

/** `POST /v1/sign-ins`. */
export type SignInRequest = {
  /** `esc_…`, as `POST /v1/sign-in-codes` has returned it. */
  code: string;
};

export type SignalBufferedData = {
  event: string;
  payload: unknown;
  /** The end of the time for which it is buffered. */
  until: string;
};

/** A run and its context, as they are when a stream begins. */
export type SnapshotEvent = {
  run: Run;
  context: unknown;
};

/** A named location of data: a PostgreSQL database, a SQLite file or an HTTP service with JSON. */
export type Source = SourcePostgres | SourceSqlite | SourceHttp;

/** A service that responds with JSON. */
export type SourceHttp = {
  type: "http";
  /** Such as `https://api.example.com/v2`; the path of a query follows it. */
  baseUrl: string;
  /** Sent with every request. */
  headers?: { [name: string]: SecretOrText };
  auth?: HttpAuth | null;
  /** Whether only GET and HEAD are sent. Others need `false` here and on the query. */
  readOnly?: boolean;
};

/** A PostgreSQL database, described by its parts or by a URL that is stored as a secret. */
export type SourcePostgres = {
  type: "postgres";
  /** `postgres://user:password@host:port/database`, as a secret; in place of the parts. */
  url?: SecretRef | null;
  host?: string | null;
  /** The default is 5432. */
  port?: number | null;
  database?: string | null;
  user?: string | null;
  password?: SecretRef | null;
  /** The protection of the connection; the default is `prefer`. */
  sslMode?: SslMode | null;
  /** The certificates to trust, in PEM. `verify-ca` needs them; without them `verify-full` trusts the public certificate authorities. */
  rootCertificate?: string | null;
  /** The maximum number of connections of one node. */
  maxConnections?: number;
  /** Whether nothing may be written. Writing needs `false` here and on the query. */
  readOnly?: boolean;
};

/** A SQLite file in the folder that the server configures for them. It is read-only. */
export type SourceSqlite = {
  type: "sqlite";
  /** Its path within the folder in `EVERSTEP_SQLITE_SOURCES_DIR`. */
  file: string;
  /** Always true: a SQLite file is read-only. */
  readOnly?: boolean;
};

/** Whether a source can be reached and accepts the credentials. */
export type SourceTest = {
  ok: boolean;
  /** A message for people: the result and the remedy. */
  message: string;
  serverVersion?: string | null;
  latencyMs: number;
};

/** The protection of a connection to PostgreSQL, in the terms of libpq. */
export type SslMode = "disable" | "prefer" | "require" | "verify-ca" | "verify-full";

/** `POST /v1/workflows/{name}/runs/batch`. */
export type StartBatch = {
  runs: OfWorkflow[];
};

/** The response to a start. */
export type Started = {
  run: Run;
  /** False if a run with that idempotency key existed before. */
  created: boolean;
  /** A warning, for example that no worker serves the workflow. */
  warning?: string | null;
};

/** The response to many starts, in their order. */
export type StartedBatch = {
  runs: StartedOne[];
  /** A warning, for example that no worker serves the workflow. */
  warning?: string | null;
};

export type StartedChild = {
  step: string;
  run: string;
};

/** The result of one start of many: a run, or an error. */
export type StartedOne = {
  /** The run's id. */
  id?: string | null;
  /** False if a run with that idempotency key existed before. */
  created?: boolean | null;
  /** The status of the run. */
  status?: "pending" | "running" | "waiting" | "paused" | "completed" | "failed" | "cancelled" | null;
  /** Why it was not started. */
  error?: Problem | null;
};

/** A run that a state starts. */
export type StateRun = {
  workflow: string;
  version: number | null;
  input: unknown;
};

/** The figures of successive periods, oldest first. */
export type Stats = {
  buckets: StatsBucket[];
};

/** The figures of one period. */
export type StatsBucket = {
  /** The beginning of the period. */
  at: string;
  started: number;
  completed: number;
  failed: number;
  cancelled: number;
  /** The median duration of the runs that completed or failed in the period; null if there are none. */
  p50Ms: number | null;
  p95Ms: number | null;
};

/** The status of a run after an entry. */
export type StatusEvent = {
  status: "pending" | "running" | "waiting" | "paused" | "completed" | "failed" | "cancelled";
  seq: number;
};

/** The history of one step. */
export type Step = {
  /** The step's name within the run: `fetch`, or `each[3].fetch` inside an iteration; for code, the name in the function. */
  key: string;
  /** The node of the graph; for a step of code, the name again. */
  node: string;
  /** The node's type, or the kind of a step of code: `run`, `sleep`, `wait`, `call` or `publish`. Null if the workflow cannot be read. */
  type: string | null;
  /** The last entry that changed the step. A fork `at` this entry continues after it. */
  seq: number;
  /** The status of a step. */
  status: "pending" | "running" | "waiting" | "completed" | "failed" | "skipped" | "cancelled";
  attempts: Attempt[];
  startedAt: string | null;
  endedAt: string | null;
  durationMs: number | null;
  /** The output of a completed step. */
  output: unknown;
  /** Why its last attempt failed. */
  error: Error | null;
  /** The handle with which it completed; null for the default handle. */
  handle: string | null;
  /** The published event that has resolved a wait. */
  event?: ResolvingEvent | null;
  /** The dead letter of a side effect that failed, with its present status: a requeue does not change the step. */
  deadLetter?: StepDeadLetter | null;
};

export type StepCompletedData = {
  output: unknown;
  handle?: string | null;
  logs?: string[];
  /** When a worker began the attempt. */
  startedAt?: string | null;
  /** The published event that has resolved a wait of a graph. */
  event?: ResolvingEvent | null;
  /** The event that the step publishes: `{topic, data, id?, subject?}`. */
  published?: { [name: string]: unknown } | null;
};

/** The dead letter of a step. */
export type StepDeadLetter = {
  id: string;
  status: "dead" | "queued" | "delivered" | "discarded";
};

/** One step, with the values of one of its attempts. A value of more than 1 MiB is `{"$cut": bytes}`. */
export type StepDetail = {
  /** The step's name within the run: `fetch`, or `each[3].fetch` inside an iteration; for code, the name in the function. */
  key: string;
  /** The node of the graph; for a step of code, the name again. */
  node: string;
  /** The node's type, or the kind of a step of code: `run`, `sleep`, `wait`, `call` or `publish`. Null if the workflow cannot be read. */
  type: string | null;
  /** The last entry that changed the step. A fork `at` this entry continues after it. */
  seq: number;
  /** The status of a step. */
  status: "pending" | "running" | "waiting" | "completed" | "failed" | "skipped" | "cancelled";
  attempts: Attempt[];
  startedAt: string | null;
  endedAt: string | null;
  durationMs: number | null;
  /** The output of a completed step. */
  output: unknown;
  /** Why its last attempt failed. */
  error: Error | null;
  /** The handle with which it completed; null for the default handle. */
  handle: string | null;
  /** The published event that has resolved a wait. */
  event?: ResolvingEvent | null;
  /** The dead letter of a side effect that failed, with its present status: a requeue does not change the step. */
  deadLetter?: StepDeadLetter | null;
  /** The config of the node, as the definition has it; null for steps of code and of state machines. */
  config: unknown;
  /** The config as it was evaluated for the attempt, with `{"$secret": name}` in place of secrets; null for steps of code and of state machines. */
  input: unknown;
  /** The entry that dispatched the attempt. */
  dispatchSeq: number | null;
  /** The entry that ended the attempt. */
  endSeq: number | null;
  /** The time between the dispatch and the beginning of the work, if a worker has reported it. */
  queuedMs: number | null;
  /** The duration of the attempt, without that time. */
  tookMs: number | null;
  /** The log lines of the attempt. */
  logs: LogsOrCut;
};

export type StepFailedData = {
  error: unknown;
  logs?: string[];
  /** When a worker began the attempt. */
  startedAt?: string | null;
};

/** A change of one step. */
export type StepHeadUpdate = {
  /** The entry that caused it. */
  seq: number;
  at: string;
  step: string;
  /** The node of a graph, without the iterations around it; the whole key for a step of code. */
  node: string;
  /** The node's type, or the kind of a step of code; missing while it is not known. */
  type?: string | null;
  /** Counted from 1; 0 for a step that was skipped. */
  attempt: number;
  /** The status of a step. */
  status: "pending" | "running" | "waiting" | "completed" | "failed" | "skipped" | "cancelled";
  /** The kind of a change of a step. */
  change: "began" | "completed" | "failed" | "skipped" | "retries" | "retryDue" | "paces" | "paceDue" | "cancelled" | "reopened";
  activity?: ActivityHead | null;
  /** When the attempt began. */
  since?: string | null;
  /** When the step continues without an input. */
  due?: string | null;
  /** The handle with which the step completed; missing for the default handle. */
  handle?: string | null;
  error?: FailureHead | null;
};

/** The state of a step according to the journal. */
export type StepRecord = {
  /** Of a wake. */
  run?: string | null;
  /** Of a wake. */
  turn?: number | null;
  step: string;
  kind: "run" | "sleep" | "wait" | "call" | "publish";
  /** The seq of the entry with this state. */
  seq: number;
  status: "completed" | "failed" | "slept" | "resolved" | "timedOut" | "retry" | "open";
  /** Of `completed`. */
  output?: unknown;
  /** Of `failed`. */
  error?: FailedStep | null;
  /** Of `resolved`: the payload of the signal, or the data of the event. */
  payload?: unknown;
  /** Of `resolved`, if a published event has resolved the wait. */
  event?: WorkerEvent | null;
  /** Of `retry`: the number of the next attempt. */
  attempt?: number | null;
};

/** A page of steps, in the order in which they began. */
export type Steps = {
  steps: Step[];
  /** The cursor of the next page; null on the last one. */
  nextCursor: string | null;
};

/** `POST /v1/topics/{pattern}/subscriptions`. */
export type SubscribeRequest = {
  type: TargetType;
  /** The name of the workflow. It may be saved or registered later. */
  name: string;
  /** A version of the workflow; the active one at the time of the event by default. */
  version?: number | null;
  /** What the data of an event must contain, at any depth; and `$expr`, an expression over `event` and `payload` that must be true. All events by default. */
  filter?: { [name: string]: unknown } | null;
  /** The input of the runs, with expressions over `event` and `payload`; the data of the event by default. */
  input?: unknown;
  /** The idempotency key of the runs, with expressions over `event` and `payload`: the workflow has one run per key. */
  key?: string | null;
  /** The number of days for which the runs are kept after their end. */
  retentionDays?: number | null;
};

/** A pattern of topics, and the workflow that their events start. */
export type Subscription = {
  id: string;
  pattern: string;
  type: TargetType;
  /** The name of the workflow. */
  name: string;
  /** The version of the workflow; null for the active version at the time of the event. */
  version: number | null;
  /** What the data of an event must contain, and the expression `$expr` that must be true. */
  filter: { [name: string]: unknown } | null;
  /** The input of the runs, with expressions over `event` and `payload`. Absent if the data of the event is the input. */
  input?: unknown;
  /** The idempotency key of the runs, with expressions over `event` and `payload`. */
  key: string | null;
  /** The number of days for which its runs are kept; null for that of the workflow. */
  retentionDays: number | null;
  /** `api`: a caller has created it. `workflow`: the active version of the workflow declares it as a trigger. */
  origin: "api" | "workflow";
  /** Since when it is paused; null if it receives events. */
  pausedAt: string | null;
  createdAt: string;
};

/** `PATCH /v1/subscriptions/{id}`: an absent field does not change; null removes its value. */
export type SubscriptionChange = {
  pattern?: string | null;
  /** The name of the workflow. */
  name?: string | null;
  version?: number | null;
  filter?: { [name: string]: unknown } | null;
  input?: unknown;
  key?: string | null;
  retentionDays?: number | null;
};

/** A page of subscriptions, oldest first. */
export type Subscriptions = {
  subscriptions: Subscription[];
  /** The cursor of the next page; null on the last one. */
  nextCursor: string | null;
};

/** What receives the events of a subscription. */
export type TargetType = "workflow" | "queue" | "http" | "https";

/** `POST /v1/test-runs`. */
export type TestRun = {
  /** A graph or a state machine, as it would be saved. */
  definition: { [name: string]: unknown };
  input?: unknown;
};

/** A credential for live routes, instead of an API key. */
export type Ticket = {
  /** `est_…`, for the header `Authorization: Bearer` or the query parameter `ticket`. */
  ticket: string;
  expiresAt: string;
};

/** The time limit of an attempt. */
export type Timeout = {
  /** Without one there is no limit. */
  defaultSeconds?: number | null;
  longestSeconds: number;
};

export type TimerSetData = {
  due: string;
  /** The purpose of the timer: `sleep`, `retry`, `pace` (the pause between two items of a loop) or `after`. */
  why: string;
};

/** `POST /v1/namespaces/{namespace}/transact`: 1 to 64 checks and writes, together at most 1 MiB. */
export type TransactRequest = {
  /** All are evaluated before the first write. */
  checks?: Check[];
  /** In their order; each sees those before it. */
  writes?: TransactWrite[];
};

/** One write. */
export type TransactWrite = TransactWriteSet | TransactWriteDelete | TransactWriteIncrement | TransactWriteUpsert | TransactWriteUnlink;

/** Deletes a record, if it exists. */
export type TransactWriteDelete = {
  delete: DeleteWrite;
};

/** Adds to a number. */
export type TransactWriteIncrement = {
  increment: IncrementWrite;
};

/** Creates or replaces a record. */
export type TransactWriteSet = {
  set: SetWrite;
};

/** Deletes links. */
export type TransactWriteUnlink = {
  unlink: UnlinkWrite;
};

/** Creates or replaces a link. */
export type TransactWriteUpsert = {
  upsert: UpsertLinkRequest;
};

/** A transaction that was applied. */
export type Transaction = {
  /** The numbers of its first and its last change; null if it changed nothing, as a transaction that only checks. */
  changes: number[] | null;
  /** The results of the writes, in their order. */
  results: WriteResult[];
};

/** An accepted transition or vote. */
export type Transition = {
  success: boolean;
  /** Whether the run has moved. False for a vote that is counted and does not reach the quorum. */
  applied: boolean;
  previousState: string;
  nextState: string;
  /** The id of the entry in the history. */
  historyId: string;
  isCompleted: boolean;
  versionNo: number;
  /** The votes of the action, if it has a quorum. */
  votes?: Votes | null;
};

export type TransitionAppliedData = {
  /** An action, or a name of the server: `@start`, `@after` or `@run`. */
  action: string;
  from?: string | null;
  to: string;
  versionNo: number;
  /** The actor: a person's id, `key:…`, `run:…`, or a part of the server such as `@timer`. */
  by: string;
  onBehalfOf?: string | null;
  comment?: string | null;
  /** The data of the request, which was merged into the context. */
  data?: unknown;
  /** Values that the definition has set in the context. */
  set?: unknown;
  assigned?: string[];
  /** The votes that actions of the entered state need: `{of, need}` by action. */
  voters?: unknown;
  /** The votes that reached the quorum. */
  votes?: string[];
  shown?: string | null;
};

/** `POST /v1/runs/{id}/transitions`. */
export type TransitionRequest = {
  /** An action of the present state. */
  action: string;
  /** The versionNo that the caller has seen; also accepted as `versionNo` and `version_no`. Without it, the versionNo at the arrival of the request. */
  version?: number | null;
  comment?: string | null;
  /** Values that are merged into the context, at most 256 KiB. */
  data?: { [name: string]: unknown } | null;
  /** The digest of the values that the caller was shown, from `GET /v1/runs/{id}/actions`. */
  shown?: string | null;
  /** Withdraws the caller's vote for the action. */
  withdraw?: boolean;
  /** The ids of files that the caller has uploaded within 24 hours, from `POST /v1/files`; also accepted as `attachments` and `attachment_ids`. */
  files?: string[];
};

export type TurnLostData = {
  turn: number;
};

export type TurnStartedData = {
  turn: number;
  worker: string;
};

/** At least one side of the links. */
export type UnlinkWrite = {
  from?: Identifier | null;
  to?: Identifier | null;
  relation?: string | null;
};

/** Written by a later build. */
export type UnreadableData = {
  unreadable: string;
};

/** A run that a wait cannot read. */
export type UnreadableRun = {
  id: string;
  error: Problem;
};

/** An uploaded file. A request to a state machine names it by its id. */
export type UploadedFile = {
  id: string;
  name: string;
  /** The number of its bytes. */
  size: number;
  /** The media type of the request, without parameters; `application/octet-stream` if it has none. */
  mediaType: string;
  /** The SHA-256 of its bytes, in hexadecimal digits. */
  sha256: string;
};

/** `POST /v1/links/{namespace}`. */
export type UpsertLinkRequest = {
  from: Identifier;
  to: Identifier;
  /** What the link expresses; `related` by default. */
  relation?: string | null;
  /** At most 64 KiB; they replace those of a link with the same sides and relation. `{}` by default. */
  attributes?: { [name: string]: unknown } | null;
};

/** The problems of a definition. */
export type Validation = {
  valid: boolean;
  /** All problems. */
  problems: Fault[];
  /** Problems to correct before a run is started, such as a secret that does not exist. A definition with warnings is valid. */
  warnings: Fault[];
};

/** What kind of JSON a value is. Any value may also be stored as `json`. */
export type ValueType = "string" | "number" | "boolean" | "json";

/** A version in lists. */
export type Version = {
  version: number;
  /** Whether new runs use it. */
  isActive: boolean;
  /** SHA-256 of the definition. */
  digest: string;
  retentionDays: number;
  createdAt: string;
};

/** A page of versions, newest first. */
export type Versions = {
  versions: Version[];
  /** The cursor of the next page; null on the last one. */
  nextCursor: string | null;
};

/** `POST /v1/runs/{id}/view`. */
export type View = {
  widgetConfig?: WidgetConfig | null;
};

/** A run with the fields of a view. */
export type Viewed = {
  id: string;
  workflow: string;
  workflowVersion: number;
  status: "pending" | "running" | "waiting" | "paused" | "completed" | "failed" | "cancelled";
  /** Increases with every change; `If-Match` and `expectedVersion` are compared with it. */
  version: number;
  input: unknown;
  output: unknown;
  error: Error | null;
  parent: string | null;
  /** The run that it was forked from. */
  origin: string | null;
  /** The event that has started it; null if a caller or another run has. */
  trigger: RunTrigger | null;
  /** Test runs are neither listed nor counted. */
  isTest: boolean;
  /** The time, signal, child run or worker that it waits for, as a sentence without its subject, such as `sleeps at step nap until …`. Null after its end. */
  waitingFor: string | null;
  /** The place of a run of a state machine; null for other runs. */
  machine: Machine | null;
  /** The worker that holds the run, if it is code and the node of this response owns it. */
  worker: string | null;
  /** The steps in progress, at most 100. */
  open: Open[];
  /** Steps that the function had not awaited when it ended: they were still running, or had failed. An `await` may be missing. */
  unawaited: string[];
  tags: unknown;
  idempotencyKey: string | null;
  retentionDays: number;
  /** The node that holds the run in memory; none while it sleeps in the database. */
  owner: string | null;
  /** When a run without an owner continues without an input. */
  wakeAt: string | null;
  /** When a run that has not begun is to begin, also while it is paused; missing if its start named no time. */
  startAt?: string | null;
  createdAt: string;
  endedAt: string | null;
  /** The requested fields of the output by their paths; only when the run has completed. */
  data?: { [name: string]: unknown } | null;
};

export type VoteCastData = {
  action: string;
  versionNo: number;
  by: string;
  onBehalfOf?: string | null;
  comment?: string | null;
  shown?: string | null;
  isWithdrawn: boolean;
};

/** A voter, and the person who votes in their place. */
export type VoterChange = {
  from: string;
  to: string;
};

/** The votes for an action of a state. */
export type Votes = {
  action: string;
  count: number;
  need: number;
  /** The voters, if the definition names them. */
  of?: string[] | null;
  /** The voters whose votes count now. */
  by: Actor[];
};

export type WaitOpenedData = {
  /** The signal's name; the step's name if there is none. */
  event?: string | null;
  match: unknown;
  due: string | null;
  /** The wait also accepts events that were published from this time on. */
  since?: string | null;
};

/** The first event of a wait for many runs. */
export type WaitingRuns = {
  /** The number of runs for which the response waits. */
  runs: number;
};

/** Links to the documents. */
export type Welcome = {
  name: string;
  version: string;
  /** For people. */
  docs: string;
  /** For programs. */
  openapi: string;
};

/** The fields of a run's output that a view shows. */
export type WidgetConfig = {
  /** Paths into the output: `total`, `order.id`, `items.0.name`. */
  fields: string[];
};

/** A connected worker. */
export type Worker = {
  /** Its name. */
  worker: string;
  sdk: string | null;
  /** The node that it is connected to. */
  node: string;
  /** The beginning of the id of its session. */
  session: string;
  workflows: ServedVersion[];
  /** The number of runs that it executes at the same time. */
  capacity: number;
  /** The number of runs that it holds now. */
  running: number;
  connectedAt: string;
  /** When the node received its last request. */
  lastSeen: string;
};

/** An error that user code has thrown. */
export type WorkerError = {
  /** Default: `ERROR`. */
  code?: string | null;
  /** A text for people. A lone surrogate, which many languages leave behind when they cut a text, is replaced. */
  message: string;
  /** The stack trace. That of `failed` is stored with the log lines of the attempt, and that of `threw` with the end of the run. */
  stack?: string | null;
  /** Whether another attempt may succeed. Default: true. Only steps are retried. */
  retryable?: boolean | null;
};

/** A published event without its data. */
export type WorkerEvent = {
  id: string;
  topic: string;
  source: string;
  at: string;
};

/** `POST /v1/worker/sessions`. */
export type WorkerHello = {
  /** The version of the protocol: 1. */
  protocol: number;
  /** A name for people, for example host and process id. */
  worker: string;
  /** The SDK and its version: `typescript/0.1.0`. */
  sdk?: string | null;
  /** The number of runs that the worker executes at the same time. */
  capacity: number;
  /** The workflows that the worker serves. */
  workflows: ServedWorkflow[];
  /** Turns from an earlier session that the worker continues. */
  holds?: HeldTurn[];
};

/** A turn that the worker loses, and why. */
export type WorkerLostTurn = {
  run: string;
  turn: number;
  /** Of `revoked`: the run is `parked` (it waits), `paused`, or has `moved` to another turn or node. Of `cancels`: the run was `cancelled`, has `failed` at the server, or has `ended` otherwise. */
  reason: "parked" | "paused" | "moved" | "cancelled" | "failed" | "ended";
  /** The cause, for people: the actor or the error that paused, cancelled or failed the run. */
  detail?: string | null;
};

/** A message to a worker: all parts that were collected for it. Empty lists are omitted. */
export type WorkerMessage = {
  /** Counts from 1. A worker processes messages in this order. */
  m: number;
  /** Reports that are in the journal: the number of each, and the seq of its entry, or 0 if no entry was written. */
  acks?: number[][];
  /** Reports that will never be accepted. */
  refused?: RefusedReport[];
  /** Reports that the worker sends again after a second. */
  later?: number[];
  /** Runs that the worker starts or continues. */
  turns?: WorkerTurn[];
  /** Steps that have ended or may be retried. Each names its run and turn. */
  wakes?: StepRecord[];
  /** Runs that were ended from outside, for example cancelled. */
  cancels?: WorkerLostTurn[];
  /** Runs that have left this worker. */
  revoked?: WorkerLostTurn[];
};

/** The response to a poll and to reports. */
export type WorkerMessages = {
  messages: WorkerMessage[];
};

/** `POST /v1/worker/poll`. */
export type WorkerPoll = {
  session: string;
  /** The number of the last message that was received without a gap; 0 for none. */
  seen: number;
  /** The number of runs that the worker executes at the same time from now on. */
  capacity?: number | null;
  /** The number of milliseconds to wait for a message. Default: 10,000. */
  waitMs?: number | null;
};

/** A report about a run. The kind determines which members it has. */
export type WorkerReport = {
  /** The number by which the report is answered. */
  n: number;
  run: string;
  turn: number;
  kind: "completed" | "failed" | "sleep" | "wait" | "call" | "publish" | "returned" | "threw" | "blocked" | "diverged" | "declined";
  /** The name of the step. Of `completed`, `failed`, `sleep`, `wait`, `call` and `publish`; of `threw`, the step whose failure ended the function. */
  step?: string | null;
  /** Of `completed` and `failed`. */
  attempt?: number | null;
  /** Of `completed` and `returned`. Default: `null`. */
  output?: unknown;
  /** Of `completed` and `failed`: the log lines of the attempt. */
  logs?: string[] | null;
  /** Of `completed` and `failed`: the duration of the attempt in milliseconds. */
  tookMs?: number | null;
  /** Of `failed`, `threw`, `diverged` and `declined`. */
  error?: WorkerError | null;
  /** Of `failed`. */
  retry?: WorkerRetry | null;
  /** Of `sleep`: milliseconds from now. */
  forMs?: number | null;
  /** Of `sleep`: milliseconds since 1970. */
  untilMs?: number | null;
  /** Of `wait`: the name of the signal, and the topic of the event. Default: the name of the step, for signals only. */
  event?: string | null;
  /** Of `wait`: an object that the payload of the signal, or the data of the event, must contain. */
  match?: { [name: string]: unknown } | null;
  /** Of `wait` and `call`. */
  timeoutMs?: number | null;
  /** Of `wait` with an `event`: it also receives events that were published before, from this time on. */
  since?: WorkerSince | null;
  /** Of `call`: the workflow to start. */
  workflow?: string | null;
  /** Of `call`. */
  version?: number | null;
  /** Of `call`. Default: `{}`. */
  input?: unknown;
  /** Of `publish`. */
  topic?: string | null;
  /** Of `publish`: the data of the event. Default: `null`. */
  data?: unknown;
  /** Of `publish`: the id of the event at the run. Default: the name of the step. */
  id?: string | null;
  /** Of `publish`. */
  subject?: string | null;
  /** Of `blocked`: the highest seq that the worker has received for the run. */
  seq?: number | null;
  /** Of `returned` and `threw`: the steps that the function did not await, though they still run or have failed. */
  unawaited?: string[] | null;
};

/** `POST /v1/worker/reports`. */
export type WorkerReports = {
  session: string;
  /** The number of the last message that was received without a gap; 0 for none. */
  seen: number;
  reports: Array<WorkerReport | NumberedReport>;
};

/** A retry policy. Default: 3 attempts with exponential backoff from 1 s up to 60 s and a jitter of 0.2. */
export type WorkerRetry = {
  /** The maximum number of attempts, including the first. */
  attempts?: number | null;
  backoff?: {
    kind?: "fixed" | "linear" | "exp";
    baseMs?: number | null;
    maxMs?: number | null;
    /** The fraction of a delay by which it varies. */
    jitter?: number | null;
  } | null;
};

/** A session that was opened. */
export type WorkerSession = {
  /** The id of the session. A request with this id and an API key of the workspace counts as a request of the worker. */
  session: string;
  /** After this many seconds without a request of the worker the session ends, and other workers get its runs. */
  leaseSeconds: number;
  /** Bytes of a request or a frame of the worker. */
  maxMessageBytes: number;
  /** Reports in a request or a frame. */
  maxReports: number;
  /** Extensions of the first protocol version that this server accepts: `unawaited` is the field of `returned` and `threw`; `topics` are triggers, the report `publish`, and the field `since` of `wait`. */
  features: string[];
};

/** From when on a wait looks for events. */
export type WorkerSince = "start" | WorkerSinceAgoMs | WorkerSinceAtMs;

/** Milliseconds before the report is recorded. */
export type WorkerSinceAgoMs = {
  agoMs: number;
};

/** Milliseconds since 1970. */
export type WorkerSinceAtMs = {
  atMs: number;
};

/** An event that starts a run, whose input is the data of the event. */
export type WorkerTrigger = {
  /** A topic, or a pattern of topics: `*` is one segment, `#` is any number of segments. */
  event: string;
  /** An object that the data must contain; `$expr` in it is an expression over `event` and `payload`. */
  match?: { [name: string]: unknown } | null;
};

/** A run that a worker starts or continues. */
export type WorkerTurn = {
  run: string;
  turn: number;
  workflow: string;
  version: number;
  input: unknown;
  startedAt: string;
  /** The event that has started the run, or the run that has called it. */
  trigger?: RunTrigger | null;
  /** The seq of the last entry of the run. */
  seq: number;
  /** The steps of the run according to the journal, in the order of seq. */
  steps: StepRecord[];
};

/** The connected workers. */
export type Workers = {
  workers: Worker[];
  /** Nodes that have not replied in time: their workers are missing. */
  silentNodes: string[];
};

/** One version of a workflow. */
export type Workflow = {
  name: string;
  version: number;
  /** The version that new runs use; null if none is active. */
  activeVersion: number | null;
  /** How it is written: `graph`, `machine`, or `code`, whose function is in a worker. */
  style: string;
  description: string | null;
  /** In canonical form: older names of fields are replaced. Null for code. */
  definition: Definition | null;
  /** The JSON Schema that the input of every new run fits; null if there is none. A state machine has a context schema in its definition instead. */
  inputSchema: { [name: string]: unknown } | null;
  /** SHA-256 of the definition. */
  digest: string;
  /** The number of days for which runs are kept after their end, unless their start sets it. */
  retentionDays: number;
  createdAt: string;
  /** Problems to correct before a run is started, such as a secret that does not exist. Only in responses to a save. */
  warnings?: Fault[];
};

/** A workflow in lists, with the number of its runs in each status. Counts are at most a second old. */
export type WorkflowSummary = {
  name: string;
  style: string;
  /** The version that new runs use; null if none is active. */
  activeVersion: number | null;
  latestVersion: number;
  updatedAt: string;
  pending: number;
  running: number;
  waiting: number;
  paused: number;
  completed: number;
  failed: number;
  cancelled: number;
};

/** A workspace: an API key gives access to one workspace only. */
export type Workspace = {
  id: string;
  name: string;
  options: WorkspaceOptions;
  createdAt: string;
};

export type WorkspaceOptions = {
  /** Whether javascript nodes may use `fetch`. */
  fetch: boolean;
  /** The role map of the workspace: from roles of people to permissions. It has precedence over that of the server. */
  roles: { [name: string]: string };
  /** The address that receives the mails of the workspace as signed webhooks; without it, the mail server receives them. */
  notifyUrl?: string | null;
  /** The name of the secret that signs these webhooks. */
  notifySecret?: string | null;
};

/** A page of workspaces, by name. */
export type Workspaces = {
  workspaces: Workspace[];
  /** The cursor of the next page; null on the last one. */
  nextCursor: string | null;
};

/** The result of one write. */
export type WriteResult = AppliedSet | AppliedDelete | AppliedIncrement | AppliedUpsert | AppliedUnlink;

/** Every route, with its query parameters, its body and its answer. */
export interface Routes {
  /** Check liveness */
  "GET /livez": { answer: Alive; };
  /** Check readiness */
  "GET /readyz": { answer: Readiness; };
  /** Get the OpenAPI document */
  "GET /v1/openapi.json": { answer: { [name: string]: unknown }; };
  /** Get the docs page */
  "GET /docs": { answer: undefined; };
  /** Get the root document */
  "GET /": { answer: Welcome; };
  /** Follow a run */
  "GET /v1/runs/{id}/events": { query: { after?: number; view?: "full" | "heads"; ticket?: string }; answer: undefined; };
  /** Follow runs and the workspace */
  "GET /v1/socket": { query: { ticket?: string }; answer: unknown; };
  /** Get the metrics of this node */
  "GET /metrics": { answer: undefined; };
  /** List nodes */
  "GET /v1/nodes": { answer: Nodes; };
  /** List workflows */
  "GET /v1/workflows": { query: { cursor?: string; limit?: number }; answer: WorkflowSummary[]; };
  /** Create a workflow */
  "POST /v1/workflows": { body: CreateWorkflowRequest; answer: Workflow; };
  /** Validate a definition */
  "POST /v1/workflows/validate": { body: unknown; answer: Validation; };
  /** Import a workflow */
  "POST /v1/workflows/import": { query: { name?: string; activate?: boolean }; body: Portable; answer: Workflow; };
  /** Get a workflow */
  "GET /v1/workflows/{name}": { query: { version?: number }; answer: Workflow; };
  /** Save a workflow */
  "PUT /v1/workflows/{name}": { query: { activate?: boolean }; body: Definition; answer: Workflow; };
  /** Delete a workflow */
  "DELETE /v1/workflows/{name}": { answer: undefined; };
  /** List the versions of a workflow */
  "GET /v1/workflows/{name}/versions": { query: { cursor?: number; limit?: number }; answer: Versions; };
  /** Activate a version of a workflow */
  "POST /v1/workflows/{name}/activate": { body: Activate; answer: Workflow; };
  /** Export a workflow */
  "GET /v1/workflows/{name}/export": { query: { version?: number }; answer: Exported; };
  /** Clone a workflow */
  "POST /v1/workflows/{name}/clone": { body: Clone; answer: Workflow; };
  /** List node kinds */
  "GET /v1/catalog": { answer: Kinds; };
  /** Get a node kind */
  "GET /v1/catalog/{kind}": { answer: Kind; };
  /** Show the schema of a workflow file */
  "GET /v1/schemas/{style}": { answer: { [name: string]: unknown }; };
  /** List the runs of a workflow */
  "GET /v1/workflows/{name}/runs": { query: { status?: Array<"pending" | "running" | "waiting" | "paused" | "completed" | "failed" | "cancelled">; version?: number; state?: string; parent?: string; origin?: string; errorCode?: string; trigger?: string; since?: string; until?: string; input?: { [name: string]: unknown }; tag?: { [name: string]: unknown }; cursor?: string; limit?: number }; answer: Runs; };
  /** Start a run */
  "POST /v1/workflows/{name}/runs": { query: { waitSeconds?: number }; body: OfWorkflow; answer: Started; };
  /** Get a run of a workflow */
  "GET /v1/workflows/{name}/runs/{id}": { query: { waitSeconds?: number }; answer: Run; };
  /** Cancel a run of a workflow */
  "DELETE /v1/workflows/{name}/runs/{id}": { answer: Outcome; };
  /** List the steps of a run of a workflow */
  "GET /v1/workflows/{name}/runs/{id}/steps": { query: { cursor?: string; limit?: number }; answer: Steps; };
  /** Signal a run of a workflow */
  "POST /v1/workflows/{name}/runs/{id}/signals/{event}": { query: { buffer?: boolean }; body: unknown; answer: Outcome; };
  /** Start a batch of runs */
  "POST /v1/workflows/{name}/runs/batch": { body: StartBatch; answer: StartedBatch; };
  /** Start a run of a definition */
  "POST /v1/workflow-runs": { query: { waitSeconds?: number }; body: OfDefinition; answer: Started; };
  /** Start a run of a definition (alias) */
  "POST /api/v1/workflow-runs": { query: { waitSeconds?: number }; body: OfDefinition; answer: Started; };
  /** List runs */
  "GET /v1/runs": { query: { workflow?: string; status?: Array<"pending" | "running" | "waiting" | "paused" | "completed" | "failed" | "cancelled">; version?: number; state?: string; parent?: string; origin?: string; key?: string; errorCode?: string; trigger?: string; text?: string; since?: string; until?: string; input?: { [name: string]: unknown }; tag?: { [name: string]: unknown }; cursor?: string; limit?: number }; answer: Runs; };
  /** Wait for runs */
  "GET /v1/runs/wait": { query: { ids?: string; waitSeconds?: number }; answer: undefined; };
  /** Get a run */
  "GET /v1/runs/{id}": { query: { waitSeconds?: number }; answer: Run; };
  /** List the steps of a run */
  "GET /v1/runs/{id}/steps": { query: { cursor?: string; limit?: number }; answer: Steps; };
  /** Get a step of a run */
  "GET /v1/runs/{id}/steps/{key}": { query: { attempt?: number; part?: "output" | "input" | "logs" }; answer: StepDetail; };
  /** Get the context of a run */
  "GET /v1/runs/{id}/context": { query: { at?: number }; answer: Context; };
  /** List the log lines of a run */
  "GET /v1/runs/{id}/logs": { query: { step?: string; cursor?: string; limit?: number }; answer: Logs; };
  /** Get a view of a run */
  "POST /v1/runs/{id}/view": { body: View; answer: Viewed; };
  /** List the journal entries of a run */
  "GET /v1/runs/{id}/journal": { query: { after?: number; limit?: number; view?: "full" | "heads" }; answer: JournalView; };
  /** Signal a run */
  "POST /v1/runs/{id}/signals/{event}": { query: { buffer?: boolean }; body: unknown; answer: Outcome; };
  /** Cancel a run */
  "POST /v1/runs/{id}/cancel": { body: Cancel; answer: Outcome; };
  /** Pause a run */
  "POST /v1/runs/{id}/pause": { body: Control; answer: Outcome; };
  /** Resume a run */
  "POST /v1/runs/{id}/resume": { body: Control; answer: Outcome; };
  /** Retry a run */
  "POST /v1/runs/{id}/retry": { body: Control; answer: Outcome; };
  /** Fork a run */
  "POST /v1/runs/{id}/fork": { body: Fork; answer: Forked; };
  /** Control runs in bulk */
  "POST /v1/runs/bulk": { body: Bulk; answer: Gathered; };
  /** Start a test run */
  "POST /v1/test-runs": { body: TestRun; answer: Started; };
  /** Delete a test run */
  "DELETE /v1/test-runs/{id}": { answer: undefined; };
  /** Perform an action */
  "POST /v1/runs/{id}/transitions": { body: TransitionRequest; answer: Transition; };
  /** List the actions of a run */
  "GET /v1/runs/{id}/actions": { answer: Actions; };
  /** List the history of a run */
  "GET /v1/runs/{id}/history": { query: { cursor?: string; limit?: number }; answer: History; };
  /** Assign a state */
  "POST /v1/runs/{id}/assign": { body: AssignRequest; answer: Assignment; };
  /** Evaluate an action */
  "POST /v1/runs/{id}/evaluate": { body: EvaluateRunRequest; answer: DryRun; };
  /** Evaluate a definition */
  "POST /v1/workflows/evaluate": { body: EvaluateDefinitionRequest; answer: DefinitionDryRun; };
  /** Perform an action in an instance (alias) */
  "POST /workflow-engine/instances/{id}/transition": { body: TransitionRequest; answer: Transition; };
  /** Get an instance (alias) */
  "GET /workflow-engine/instances/{id}": { answer: Instance; };
  /** List the actions of an instance (alias) */
  "GET /workflow-engine/instances/{id}/actions": { answer: Actions; };
  /** List the history of an instance (alias) */
  "GET /workflow-engine/instances/{id}/history": { query: { cursor?: string; limit?: number }; answer: History; };
  /** List definitions (alias) */
  "GET /workflow-engine/definitions": { query: { cursor?: string; limit?: number }; answer: DefinitionPage; };
  /** Create a definition (alias) */
  "POST /workflow-engine/definitions": { body: CreateDefinitionRequest; answer: MachineDefinition; };
  /** Validate a state machine (alias) */
  "POST /workflow-engine/definitions/validate": { body: unknown; answer: DefinitionValidation; };
  /** Get a definition (alias) */
  "GET /workflow-engine/definitions/{id}": { answer: MachineDefinition; };
  /** Change a definition (alias) */
  "PATCH /workflow-engine/definitions/{id}": { body: DefinitionChange; answer: MachineDefinition; };
  /** Evaluate a definition (alias) */
  "POST /workflow-engine/evaluate": { body: EvaluateDefinitionRequest; answer: DefinitionDryRun; };
  /** Upload a file */
  "POST /v1/files": { query: { name?: string }; answer: UploadedFile; };
  /** Download a file */
  "GET /v1/files/{id}": { answer: undefined; };
  /** Download a file (alias) */
  "GET /api/files/{publicId}": { answer: undefined; };
  /** List the inbox */
  "GET /v1/inbox": { query: { workflow?: string; cursor?: string; limit?: number }; answer: Inbox; };
  /** Get figures of runs */
  "GET /v1/stats": { query: { since?: string; until?: string; every?: "1m" | "5m" | "1h" | "1d"; workflow?: string }; answer: Stats; };
  /** Open a worker session */
  "POST /v1/worker/sessions": { body: WorkerHello; answer: WorkerSession; };
  /** Close a worker session */
  "DELETE /v1/worker/sessions/{id}": { answer: undefined; };
  /** Poll for worker messages */
  "POST /v1/worker/poll": { body: WorkerPoll; answer: WorkerMessages; };
  /** Send worker reports */
  "POST /v1/worker/reports": { body: WorkerReports; answer: WorkerMessages; };
  /** Connect a worker over a WebSocket */
  "GET /v1/worker/socket": { answer: unknown; };
  /** List workers */
  "GET /v1/workers": { answer: Workers; };
  /** List namespaces */
  "GET /v1/namespaces": { query: { cursor?: string; limit?: number }; answer: Namespaces; };
  /** Get a namespace */
  "GET /v1/namespaces/{namespace}": { answer: Namespace; };
  /** Empty a namespace */
  "DELETE /v1/namespaces/{namespace}": { answer: EmptiedNamespace; };
  /** Apply a transaction */
  "POST /v1/namespaces/{namespace}/transact": { body: TransactRequest; answer: Transaction; };
  /** List changes */
  "GET /v1/namespaces/{namespace}/changes": { query: { after?: number; limit?: number; actor?: string; action?: "store.set" | "store.delete" | "store.increment" | "store.expire" | "links.upsert" | "links.delete"; run?: string }; answer: Changes; };
  /** List records */
  "GET /v1/store/{namespace}": { query: { prefix?: string; match?: string; values?: boolean; cursor?: string; limit?: number }; answer: Records; };
  /** Get a record */
  "GET /v1/store/{namespace}/{key}": { answer: Record; };
  /** Set a record */
  "PUT /v1/store/{namespace}/{key}": { body: SetRecordRequest; answer: AppliedSet; };
  /** Delete a record */
  "DELETE /v1/store/{namespace}/{key}": { query: { ifRevision?: number }; answer: undefined; };
  /** Increment a record */
  "POST /v1/store/{namespace}/{key}/increment": { body: IncrementRecordRequest; answer: AppliedIncrement; };
  /** List links */
  "GET /v1/links/{namespace}": { query: { leftType?: string; rightType?: string; relation?: string; cursor?: string; limit?: number }; answer: Links; };
  /** Upsert a link */
  "POST /v1/links/{namespace}": { body: UpsertLinkRequest; answer: AppliedUpsert; };
  /** Delete links */
  "DELETE /v1/links/{namespace}": { query: { fromType?: string; fromId?: string; toType?: string; toId?: string; relation?: string }; answer: DeletedLinks; };
  /** Look up links */
  "GET /v1/links/{namespace}/lookup": { query: { type?: string; id?: string; direction?: "forward" | "reverse" | "either"; relation?: string; toType?: string; cursor?: string; limit?: number }; answer: LinkMatches; };
  /** Get a link */
  "GET /v1/links/{namespace}/{id}": { answer: Link; };
  /** Delete a link */
  "DELETE /v1/links/{namespace}/{id}": { answer: undefined; };
  /** Publish an event to a topic */
  "POST /v1/topics/{topic}": { query: { waitSeconds?: number }; body: unknown; answer: PublishedEvent; };
  /** Get an event */
  "GET /v1/events/{id}": { query: { cursor?: string; limit?: number }; answer: EventDetail; };
  /** Publish an event to a topic (alias) */
  "POST /v1/events/{id}": { query: { waitSeconds?: number }; body: unknown; answer: PublishedEvent; };
  /** List events */
  "GET /v1/events": { query: { topic?: string; since?: string; until?: string; cursor?: string; limit?: number }; answer: Events; };
  /** Publish events */
  "POST /v1/events": { query: { waitSeconds?: number }; body: PublishRequest; answer: PublishResponse; };
  /** Replay an event */
  "POST /v1/events/{id}/replay": { query: { waitSeconds?: number }; body: ReplayRequest; answer: PublishedEvent; };
  /** List the subscriptions of a pattern */
  "GET /v1/topics/{pattern}/subscriptions": { query: { cursor?: string; limit?: number }; answer: Subscriptions; };
  /** Create a subscription */
  "POST /v1/topics/{pattern}/subscriptions": { body: SubscribeRequest; answer: Subscription; };
  /** List subscriptions */
  "GET /v1/subscriptions": { query: { cursor?: string; limit?: number }; answer: Subscriptions; };
  /** Get a subscription */
  "GET /v1/subscriptions/{id}": { answer: Subscription; };
  /** Change a subscription */
  "PATCH /v1/subscriptions/{id}": { body: SubscriptionChange; answer: Subscription; };
  /** Delete a subscription */
  "DELETE /v1/subscriptions/{id}": { answer: undefined; };
  /** Pause a subscription */
  "POST /v1/subscriptions/{id}/pause": { answer: Subscription; };
  /** Resume a subscription */
  "POST /v1/subscriptions/{id}/resume": { answer: Subscription; };
  /** List dead letters */
  "GET /v1/dead-letters": { query: { status?: "dead" | "queued" | "delivered" | "discarded"; source?: "delivery" | "start"; kind?: string; workflow?: string; run?: string; error?: string; since?: string; until?: string; cursor?: string; limit?: number }; answer: DeadLetters; };
  /** Get a dead letter */
  "GET /v1/dead-letters/{id}": { answer: DeadLetterDetail; };
  /** Requeue a dead letter */
  "POST /v1/dead-letters/{id}/requeue": { answer: DeadLetter; };
  /** Discard a dead letter */
  "POST /v1/dead-letters/{id}/discard": { body: DiscardRequest; answer: DeadLetter; };
  /** Requeue dead letters */
  "POST /v1/dead-letters/requeue": { body: BulkRequeue; answer: DeadLettersChanged; };
  /** Discard dead letters */
  "POST /v1/dead-letters/discard": { body: BulkDiscard; answer: DeadLettersChanged; };
  /** Get the caller */
  "GET /v1/me": { answer: Me; };
  /** List API keys */
  "GET /v1/keys": { query: { cursor?: string; limit?: number }; answer: Keys; };
  /** Create an API key */
  "POST /v1/keys": { body: CreateKeyRequest; answer: MadeKey; };
  /** Revoke an API key */
  "DELETE /v1/keys/{id}": { answer: Key; };
  /** Create a ticket */
  "POST /v1/tickets": { body: Empty; answer: Ticket; };
  /** Create a sign-in code */
  "POST /v1/sign-in-codes": { body: Empty; answer: SignInCode; };
  /** Sign in with a code */
  "POST /v1/sign-ins": { body: SignInRequest; answer: SignIn; };
  /** Sign out */
  "DELETE /v1/sign-ins/current": { answer: undefined; };
  /** List audit rows */
  "GET /v1/audit": { query: { actor?: string; action?: string; since?: string; until?: string; cursor?: string; limit?: number }; answer: AuditEntries; };
  /** List workspaces */
  "GET /v1/workspaces": { query: { cursor?: string; limit?: number }; answer: Workspaces; };
  /** Create a workspace */
  "POST /v1/workspaces": { body: CreateWorkspaceRequest; answer: MadeWorkspace; };
  /** Update the options of a workspace */
  "PATCH /v1/workspaces/{name}": { body: ChangedWorkspace; answer: Workspace; };
  /** List secrets */
  "GET /v1/secrets": { query: { cursor?: string; limit?: number }; answer: Secrets; };
  /** Set a secret */
  "PUT /v1/secrets/{name}": { body: SetSecretRequest; answer: Secret; };
  /** Delete a secret */
  "DELETE /v1/secrets/{name}": { answer: undefined; };
  /** List data sources */
  "GET /v1/data-sources": { query: { cursor?: string; limit?: number }; answer: DataSources; };
  /** Get a data source */
  "GET /v1/data-sources/{name}": { answer: DataSource; };
  /** Save a data source */
  "PUT /v1/data-sources/{name}": { body: Source; answer: DataSource; };
  /** Delete a data source */
  "DELETE /v1/data-sources/{name}": { answer: undefined; };
  /** Test a data source */
  "POST /v1/data-sources/{name}/test": { answer: SourceTest; };
  /** Test an unsaved data source */
  "POST /v1/data-sources/test": { body: Source; answer: SourceTest; };
  /** List saved queries */
  "GET /v1/queries": { query: { cursor?: string; limit?: number }; answer: SavedQueries; };
  /** Get a saved query */
  "GET /v1/queries/{id}": { answer: SavedQuery; };
  /** Save a query */
  "PUT /v1/queries/{id}": { body: Query; answer: SavedQuery; };
  /** Delete a saved query */
  "DELETE /v1/queries/{id}": { answer: undefined; };
  /** Run a saved query */
  "POST /v1/queries/{id}/run": { body: QueryRun; answer: QueryAnswer; };
}
