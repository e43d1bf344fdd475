//! Dead letters in the API.

use everstep_core::dead_letter::{DeadLetterAttempt, DeadLetterSource};
use everstep_core::ids::{DeadLetterId, EventId, RunId, StepKey, SubscriptionId};
use everstep_core::payload::Payload;
use everstep_store::DeadLetterRow;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::http::problem::Problem;
use crate::http::schema::{Id, Json, MomentOrDay};
use crate::http::time::Time;

/// Characters of the reason of a discard.
const REASON_CHARS_MAX: usize = 1_000;

/// Work that failed permanently.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeadLetter {
    #[schemars(with = "Id")]
    id: DeadLetterId,
    /// `dead`: all attempts failed. `queued`: it was requeued. `delivered`: a requeue succeeded. `discarded`: a caller has
    /// discarded it.
    #[schemars(extend("enum" = ["dead", "queued", "delivered", "discarded"]))]
    status: &'static str,
    /// `delivery`: a side effect of a state machine. `start`: a workflow that an event could not start.
    #[schemars(extend("enum" = ["delivery", "start"]))]
    source: &'static str,
    /// The kind of the work, such as `webhook`.
    kind: String,
    /// The run to which the work belongs.
    #[schemars(with = "Option<Id>")]
    run: Option<RunId>,
    workflow: Option<String>,
    #[schemars(with = "Option<String>")]
    step: Option<StepKey>,
    /// The id that the receiver gets, the same for all attempts and requeues.
    delivery_id: String,
    /// The entry in the history of the run that decided the work.
    #[schemars(with = "Option<Id>")]
    history_id: Option<Uuid>,
    #[schemars(with = "Option<Id>")]
    event: Option<EventId>,
    #[schemars(with = "Option<Id>")]
    subscription: Option<SubscriptionId>,
    /// The receiver, without the query and credentials of a URL.
    target: String,
    /// All attempts, oldest first: at most 30, of which the first one is kept.
    attempts: Vec<Attempt>,
    /// Why it was discarded.
    reason: Option<String>,
    /// When the last of the first attempts failed.
    created_at: Time,
    /// When the status changed.
    changed_at: Time,
    /// When operators were notified.
    notified_at: Option<Time>,
}

/// One attempt.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DeadLetterAttempt")]
struct Attempt {
    /// When it began.
    at: Time,
    /// How long it took.
    ms: u64,
    /// The code of its failure, or `DELIVERED`.
    code: String,
    message: String,
    /// The HTTP status of the response, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
}

impl Attempt {
    fn from_core(attempt: DeadLetterAttempt) -> Self {
        let DeadLetterAttempt { at, ms, code, message, status } = attempt;
        Self { at: Time::from_timestamp(at), ms, code, message, status }
    }
}

impl DeadLetter {
    pub(super) fn from_row(row: DeadLetterRow) -> Self {
        DeadLetterDetail::from_row(row).letter
    }
}

/// A dead letter with its config.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeadLetterDetail {
    #[serde(flatten)]
    letter: DeadLetter,
    /// The config as it was decided; of the kind `workflow` also the `cause` of its run. A secret is its name.
    #[schemars(with = "Json")]
    config: Payload,
    /// The places in the config that name secrets, as JSON pointers.
    secrets: Vec<String>,
}

impl DeadLetterDetail {
    pub(super) fn from_row(row: DeadLetterRow) -> Self {
        let DeadLetterRow { letter, status, taken_by: _, notified_at, changed_at, reason } = row;
        let shown = DeadLetter {
            id: letter.id,
            status: status.as_str(),
            source: letter.source.as_str(),
            kind: letter.kind,
            run: letter.run,
            workflow: letter.workflow,
            step: letter.step,
            delivery_id: letter.delivery,
            history_id: letter.history,
            event: letter.event,
            subscription: letter.subscription,
            target: letter.target,
            attempts: letter.attempts.into_iter().map(Attempt::from_core).collect(),
            reason,
            created_at: Time::from_timestamp(letter.created_at),
            changed_at: Time::from_timestamp(changed_at),
            notified_at: notified_at.map(Time::from_timestamp),
        };
        Self { letter: shown, config: letter.config, secrets: letter.secrets }
    }
}

/// A page of dead letters, newest first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeadLetters {
    pub(super) dead_letters: Vec<DeadLetter>,
    /// The cursor of the next page; null on the last one.
    pub(super) next_cursor: Option<String>,
}

/// `POST /v1/dead-letters/{id}/discard`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DiscardRequest {
    #[schemars(length(min = 1, max = 1_000))]
    pub(super) reason: Option<String>,
}

/// `POST /v1/dead-letters/requeue`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BulkRequeue {
    #[serde(default)]
    pub(super) filter: Filter,
    /// Required for an empty filter.
    #[serde(default)]
    pub(super) all: bool,
    /// Only counts the selected dead letters.
    #[serde(default)]
    pub(super) dry_run: bool,
    /// `nextCursor` of the previous call with this filter, unchanged.
    #[schemars(length(min = 1, max = 100))]
    pub(super) cursor: Option<String>,
}

/// `POST /v1/dead-letters/discard`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BulkDiscard {
    #[serde(default)]
    pub(super) filter: Filter,
    /// Required for an empty filter.
    #[serde(default)]
    pub(super) all: bool,
    /// Only counts the selected dead letters.
    #[serde(default)]
    pub(super) dry_run: bool,
    #[schemars(length(min = 1, max = 1_000))]
    pub(super) reason: Option<String>,
    /// `nextCursor` of the previous call with this filter, unchanged.
    #[schemars(length(min = 1, max = 100))]
    pub(super) cursor: Option<String>,
}

/// The selection of dead letters with the status `dead`, with the fields of their list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "DeadLetterFilter")]
pub(crate) struct Filter {
    pub(super) source: Option<SourceName>,
    /// The kind of the work, such as `webhook`.
    #[schemars(length(min = 1, max = 128))]
    pub(super) kind: Option<String>,
    #[schemars(length(min = 1, max = 128))]
    pub(super) workflow: Option<String>,
    #[schemars(with = "Option<Id>")]
    pub(super) run: Option<String>,
    /// The code of the last failed attempt.
    #[schemars(length(min = 1, max = 100))]
    pub(super) error: Option<String>,
    #[schemars(with = "Option<MomentOrDay>")]
    pub(super) since: Option<String>,
    #[schemars(with = "Option<MomentOrDay>")]
    pub(super) until: Option<String>,
}

/// Where a dead letter comes from.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "DeadLetterSource")]
pub(crate) enum SourceName {
    /// A side effect of a state machine.
    Delivery,
    /// A workflow that an event could not start.
    Start,
}

impl SourceName {
    pub(super) fn source(self) -> DeadLetterSource {
        match self {
            Self::Delivery => DeadLetterSource::Delivery,
            Self::Start => DeadLetterSource::Start,
        }
    }
}

/// The result for many dead letters.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DeadLettersChanged")]
pub(crate) struct BulkResult {
    /// The dead letters that were changed, or would be, at most 10,000.
    pub(super) matched: u64,
    /// Whether the filter selects more than these.
    pub(super) has_more: bool,
    /// The `cursor` of the request that changes the next ones, if there are more. It changes none of these dead letters
    /// again, also if they have failed again. Null after a dry run, which changes none.
    pub(super) next_cursor: Option<String>,
}

/// Checks the reason of a discard.
pub(super) fn check_reason(reason: Option<&str>) -> Result<(), Problem> {
    let is_valid = |reason: &str| (1..=REASON_CHARS_MAX).contains(&reason.chars().count()) && !reason.contains('\0');
    if reason.is_none_or(is_valid) {
        return Ok(());
    }
    let detail = format!("reason: it must have 1 to {REASON_CHARS_MAX} characters, none of them NUL");
    Err(Problem::invalid(detail).with("path", "reason"))
}
