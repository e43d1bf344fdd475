//! Bounds that hold for every run. Each is refused or failed loudly; logs and messages alone are cut, with a mark.

/// Bytes of JSON in one input, output or signal.
pub const PAYLOAD_BYTES: usize = 1024 * 1024;
/// Bytes of JSON that a run's context may hold.
pub const CONTEXT_BYTES: usize = 16 * 1024 * 1024;
/// Bytes that a run's state may take in memory, with the outputs of all its steps.
pub const STATE_BYTES: usize = 256 * 1024 * 1024;
/// Entries in one run's journal.
pub const JOURNAL_ENTRIES: u64 = 500_000;
/// Bytes of log lines kept for one attempt.
pub const LOG_BYTES: usize = 64 * 1024;
/// Bytes of the message of a worker's failure that are kept.
pub const FAILURE_MESSAGE_BYTES: usize = 16 * 1024;
/// Bytes of the stack trace of an error that are kept.
pub const STACK_BYTES: usize = 16 * 1024;
/// Unawaited steps that the end of a function names.
pub const UNAWAITED_STEPS: usize = 20;
/// Events that one decision writes before it stops and goes on in the next item.
pub const EVENTS_PER_DECISION: usize = 256;
/// Dispatches in a row that end without any result before the step fails.
pub const CONSECUTIVE_CRASHES: u32 = 10;
/// Turns in a row that a run's workers lose without any progress before it fails.
pub const CONSECUTIVE_LOST_TURNS: u32 = 10;
/// Signals that a run keeps until something waits for them.
pub const BUFFERED_SIGNALS: usize = 100;
/// For how many days they are kept.
pub const BUFFERED_DAYS: u64 = 7;
/// How far ahead a sleep or a timeout of a code workflow may lie, in days.
pub const TIMER_DAYS: u64 = 36_525;
/// Runs above one that was started by a run that was started by a run.
pub const CHILD_DEPTH: u32 = 32;
/// Characters of an idempotency key.
pub const KEY_CHARS: usize = 255;
/// Idempotency keys of signals and controls that a run remembers.
pub const REMEMBERED_KEYS: usize = 256;
/// Nodes of one graph.
pub const GRAPH_NODES: usize = 10_000;
/// Bytes of the schema of a workflow's input.
pub const INPUT_SCHEMA_BYTES: usize = 64 * 1024;
/// How deep JSON may be nested.
pub const JSON_DEPTH: usize = 100;
/// Bytes of a rule of JSON Logic, as JSON without spaces.
pub const RULE_BYTES: usize = 64 * 1024;
/// How deep the operations of a rule, and the lists of its results, may be nested.
pub const RULE_LEVELS: usize = 32;
/// Operations of one evaluation of a rule.
pub const RULE_OPERATIONS: u64 = 10_000;
/// Bytes of all results of one evaluation of a rule.
pub const RULE_RESULT_BYTES: u64 = 256 * 1024;
