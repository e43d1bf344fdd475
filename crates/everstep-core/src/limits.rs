//! Limits for every run. Data beyond a limit is rejected or fails the step or the run; only logs and messages are cut,
//! with a mark.

/// Bytes of JSON in one input, output or signal.
pub const PAYLOAD_BYTES: usize = 1024 * 1024;
/// Bytes of JSON in the context of a run.
pub const CONTEXT_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of a run's state in memory, with the outputs of all its steps.
pub const STATE_BYTES: usize = 256 * 1024 * 1024;
/// Entries in one run's journal.
pub const JOURNAL_ENTRIES: u64 = 500_000;
/// Bytes of log lines that are stored for one attempt.
pub const LOG_BYTES: usize = 64 * 1024;
/// Bytes of the message of a worker's failure that are stored.
pub const FAILURE_MESSAGE_BYTES: usize = 16 * 1024;
/// Bytes of the stack trace of an error that are kept.
pub const STACK_BYTES: usize = 16 * 1024;
/// Unawaited steps that the end of a function names.
pub const UNAWAITED_STEPS: usize = 20;
/// Events that one decision writes before it stops and continues in the next item.
pub const EVENTS_PER_DECISION: usize = 256;
/// Fuel that is used in about a millisecond, on the machine on which the prices were measured.
pub const FUEL_PER_MS: u64 = 1_000_000;
/// Fuel of one expression.
pub const EXPRESSION_FUEL: u64 = 5 * FUEL_PER_MS;
/// Fuel of one decision: of the work that it cannot divide, and after which it ends.
pub const DECISION_FUEL: u64 = 20 * FUEL_PER_MS;
/// Consecutive dispatches without a result after which a step fails.
pub const CONSECUTIVE_CRASHES: u32 = 10;
/// Consecutive lost turns without progress after which a run fails.
pub const CONSECUTIVE_LOST_TURNS: u32 = 10;
/// Signals that a run buffers until a wait for them is opened.
pub const BUFFERED_SIGNALS: usize = 100;
/// The number of days for which a signal is buffered.
pub const BUFFERED_DAYS: u64 = 7;
/// The maximum time from now of a sleep or a timeout of a code workflow, in days.
pub const TIMER_DAYS: u64 = 36_525;
/// The maximum number of ancestors of a run: its parent, the parent of its parent, and so on.
pub const CHILD_DEPTH: u32 = 32;
/// Search attributes of a workflow.
pub const SEARCH_ATTRIBUTES: usize = 16;
/// Characters of the path of a search attribute.
pub const SEARCH_PATH_CHARS: usize = 200;
/// Characters of an idempotency key.
pub const KEY_CHARS: usize = 255;
/// Idempotency keys of signals and controls that a run remembers.
pub const REMEMBERED_KEYS: usize = 256;
/// Idempotency keys of pauses and resumptions that a run remembers from the time before it began.
pub const REMEMBERED_HOLDS: usize = 16;
/// Idempotency keys of requests to a machine that a run remembers, with their answers.
pub const REMEMBERED_ACTS: usize = 1_000;
/// The number of hours for which a run remembers them.
pub const REMEMBERED_HOURS: u64 = 24;
/// Characters of a comment of a transition, and of the reason of an assignment.
pub const COMMENT_CHARS: usize = 2_000;
/// Files of one request to a machine.
pub const ACT_FILES: usize = 20;
/// Bytes of the name of a file.
pub const FILE_NAME_BYTES: usize = 255;
/// Bytes of each chunk of a file, except the last one.
pub const FILE_CHUNK_BYTES: usize = 256 * 1024;
/// Bytes of the files of one person that no run has.
pub const UNBOUND_FILE_BYTES: u64 = 250 * 1024 * 1024;
/// The number of hours after its upload in which a file can be bound to a run.
pub const UNBOUND_FILE_HOURS: u64 = 24;
/// Transitions in a row that the server itself performs at once, before it pauses the run.
pub const AUTO_TRANSITIONS: u32 = 16;
/// Persons to whom a state is assigned, and voters of an action.
pub const PERSONS: usize = 1_000;
/// Characters of the name of a person. OpenID Connect limits the ids of people to the same number.
pub const PERSON_CHARS: usize = 255;
/// Workflows of one workspace.
pub const WORKFLOWS: usize = 10_000;
/// Names of workflows that are read to count those of a workspace, with the names of deleted workflows whose versions
/// are still stored. A workspace with more adds no name until the versions are deleted.
pub const COUNTED_NAMES: usize = 2 * WORKFLOWS;
/// API keys of one workspace, with those of one-time links.
pub const KEYS: usize = 1_000;
/// Subscriptions of one workspace, with the triggers of its workflows.
pub const SUBSCRIPTIONS: usize = 10_000;
/// Nodes of one graph.
pub const GRAPH_NODES: usize = 10_000;
/// States of one machine.
pub const MACHINE_STATES: usize = 200;
/// Actions of one state of a machine.
pub const STATE_ACTIONS: usize = 50;
/// Timers of one state of a machine.
pub const STATE_TIMERS: usize = 10;
/// Branches of one action of a machine. Each has a condition, which a decision evaluates.
pub const ACTION_BRANCHES: usize = 50;
/// Bytes of the config of a side effect that is performed after its transition.
pub const DELIVERY_BYTES: usize = 256 * 1024;
/// How often a timer with `every` is due.
pub const TIMER_REPEATS: u32 = 100;
/// Recipients of a mail.
pub const RECIPIENTS: usize = 100;
/// Side effects in one list of a machine's definition.
pub const SIDE_EFFECTS: usize = 20;
/// Persons, roles or paths in one list of a machine's definition.
pub const LISTED_NAMES: usize = 100;
/// The greatest number of votes that a quorum of a machine needs.
pub const QUORUM_VOTES: u32 = 1_000;
/// Bytes of the schema of a workflow's input.
pub const INPUT_SCHEMA_BYTES: usize = 64 * 1024;
/// Steps of one check of a machine's context against its schema: each value with each rule that is applied to it, and
/// long texts and lists. A decision checks the context, on the loop that owns the runs of all workspaces.
pub const CONTEXT_CHECK_STEPS: u64 = 50_000;
/// The maximum nesting depth of JSON.
pub const JSON_DEPTH: usize = 100;
/// Bytes of a rule of JSON Logic, as JSON without spaces.
pub const RULE_BYTES: usize = 64 * 1024;
/// How deep the operations of a rule, and the lists of its results, may be nested.
pub const RULE_LEVELS: usize = 32;
/// Operations of one evaluation of a rule.
pub const RULE_OPERATIONS: u64 = 10_000;
/// Operations of all conditions of one transition: those of an action and its branches, and of actions that follow from
/// it. Fifty branches could use fifty times the operations of a rule otherwise.
pub const CONDITION_OPERATIONS: u64 = 5 * RULE_OPERATIONS;
/// Fuel of one operation of a rule.
pub const RULE_OPERATION_FUEL: u64 = 100;
/// Bytes of all results of one evaluation of a rule.
pub const RULE_RESULT_BYTES: u64 = 256 * 1024;
