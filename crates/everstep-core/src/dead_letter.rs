//! Dead letters: work that failed permanently, with everything that is needed to perform it again.
//!
//! 1. A dead letter is a row of the item whose entry was the last failure, or of the slice of a fan-out: it exists with
//!    it or not at all.
//! 2. It contains its config as it was decided, so that neither the run nor the definition is needed to requeue it.
//!    Secrets are names in it; only the performance of a requeue reveals them.
//! 3. Its id is computed from the work that failed, so that two decisions of the same failure are one row.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::failure::Failure;
use crate::ids::{DeadLetterId, EventId, RunId, StepKey, SubscriptionId, WorkspaceId};
use crate::journal::Delivery;
use crate::payload::Payload;
use crate::retry;
use crate::time::Timestamp;

/// Characters of a target; the rest is cut off.
const TARGET_CHARS_MAX: usize = 512;
/// Characters of the message of an attempt; the rest is cut off.
const MESSAGE_CHARS_MAX: usize = 1_000;
/// Characters of the code of an attempt; the rest is cut off.
const CODE_CHARS_MAX: usize = 100;
/// The attempts that a dead letter keeps: the first one, and the last ones. Each requeue adds some.
const ATTEMPTS_MAX: usize = 30;

/// Everything that a row contains when it is written. Its status is then [`DeadLetterStatus::Dead`].
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetter {
    pub id: DeadLetterId,
    pub workspace: WorkspaceId,
    pub source: DeadLetterSource,
    /// The kind of the handler that performs it: `webhook`, `notify`, `workflow`.
    pub kind: String,
    pub run: Option<RunId>,
    pub workflow: Option<String>,
    pub step: Option<StepKey>,
    /// The idempotency key of the work: the same over attempts, crashes and requeues.
    pub delivery: String,
    /// The id of the history entry of the transition that decided it.
    pub history: Option<Uuid>,
    pub event: Option<EventId>,
    pub subscription: Option<SubscriptionId>,
    /// As [`target_without_credentials`] returns it.
    pub target: String,
    /// The config as it was decided. Secrets are names in it.
    pub config: Payload,
    /// The places in the config where the definition names secrets, as JSON pointers.
    pub secrets: Vec<String>,
    /// The config as the definition has it, if it names secrets. A handler compares the two before it sends a secret.
    pub written: Option<Payload>,
    pub attempts: Vec<DeadLetterAttempt>,
    pub created_at: Timestamp,
}

impl DeadLetter {
    /// The id of the dead letter of a step's attempt.
    pub fn id_of_step(run: RunId, step: &StepKey, attempt: u32, at: Timestamp) -> DeadLetterId {
        Self::id_of(run.uuid(), step.as_str(), attempt, at)
    }

    /// The id of the dead letter of a subscription's target that an event could not start.
    pub fn id_of_start(event: EventId, subscription: SubscriptionId, at: Timestamp) -> DeadLetterId {
        Self::id_of(event.uuid(), &subscription.to_string(), 0, at)
    }

    fn id_of(parent: Uuid, name: &str, attempt: u32, at: Timestamp) -> DeadLetterId {
        let parent = parent.as_u128();
        let half = |parent: u128| u128::from(retry::seed(parent, name, attempt));
        DeadLetterId::new(at, half(parent.rotate_left(29)) << 64 | half(parent.rotate_left(71) ^ u128::from(u64::MAX)))
    }

    /// The code of the last failed attempt.
    pub fn error(&self) -> &str {
        error_code(&self.attempts)
    }

    /// The beginning of its target, with a slash at its end, which it shares with all that wait for the same server:
    /// the scheme and the host of a URL, nothing of the addresses of a mail, otherwise the whole target.
    pub fn target_prefix(&self) -> String {
        match authority_begin(&self.target) {
            Some(begin) => {
                let rest = &self.target[begin..];
                let end = rest.find(['/', '\\']).unwrap_or(rest.len());
                format!("{}/", &self.target[..begin + end])
            }
            None if self.kind == Delivery::NOTIFY => String::new(),
            None => format!("{}/", self.target),
        }
    }

    /// The size of its texts and documents in bytes, roughly.
    pub fn size(&self) -> usize {
        let texts = self.kind.len() + self.delivery.len() + self.target.len();
        let names = self.workflow.as_ref().map_or(0, String::len)
            + self.step.as_ref().map_or(0, |step| step.as_str().len())
            + self.secrets.iter().map(String::len).sum::<usize>();
        let documents = self.config.size() + self.written.as_ref().map_or(0, Payload::size);
        let attempts = self.attempts.iter().map(|attempt| attempt.code.len() + attempt.message.len() + 64);
        texts + names + documents + attempts.sum::<usize>()
    }
}

/// Where a dead letter comes from. A later source adds a value here, and a way to requeue it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeadLetterSource {
    /// A side effect of a state machine.
    Delivery,
    /// A workflow that an event could not start.
    Start,
}

impl DeadLetterSource {
    pub const ALL: [Self; 2] = [Self::Delivery, Self::Start];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delivery => "delivery",
            Self::Start => "start",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.as_str() == name)
    }
}

/// The state of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeadLetterStatus {
    /// All attempts failed.
    Dead,
    /// A caller has requeued it: a node will perform it, or performs it.
    Queued,
    /// A requeue has succeeded.
    Delivered,
    /// A caller has discarded it.
    Discarded,
}

impl DeadLetterStatus {
    pub const ALL: [Self; 4] = [Self::Dead, Self::Queued, Self::Delivered, Self::Discarded];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Queued => "queued",
            Self::Delivered => "delivered",
            Self::Discarded => "discarded",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

/// One attempt to perform the work of a dead letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterAttempt {
    /// When it began.
    pub at: Timestamp,
    /// How long it took.
    pub ms: u64,
    /// The code of its failure; [`DeadLetterAttempt::DELIVERED`] if it succeeded.
    pub code: String,
    pub message: String,
    /// The HTTP status of the response, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

impl DeadLetterAttempt {
    /// The code of an attempt that succeeded.
    pub const DELIVERED: &'static str = "DELIVERED";

    /// A failed attempt. Long texts are cut, and characters that not every database stores are left out.
    pub fn failed(at: Timestamp, ms: u64, failure: &Failure) -> Self {
        let (code, message) = (shorten(&failure.code, CODE_CHARS_MAX), shorten(&failure.message, MESSAGE_CHARS_MAX));
        Self { at, ms, code, message, status: failure.status }
    }

    /// An attempt that succeeded, with the HTTP status of the response, if there was one.
    pub fn delivered(at: Timestamp, ms: u64, status: Option<u16>) -> Self {
        Self { at, ms, code: Self::DELIVERED.to_owned(), message: String::new(), status }
    }

    pub fn is_delivered(&self) -> bool {
        self.code == Self::DELIVERED
    }
}

/// The code of the last failed attempt.
pub fn error_code(attempts: &[DeadLetterAttempt]) -> &str {
    let failed = attempts.iter().rev().find(|attempt| !attempt.is_delivered());
    failed.map_or("", |attempt| &attempt.code)
}

/// The attempts of a dead letter after a requeue: the first one is kept, and the last ones.
pub fn add_attempts(attempts: &mut Vec<DeadLetterAttempt>, added: impl IntoIterator<Item = DeadLetterAttempt>) {
    attempts.extend(added);
    if let Some(excess) = attempts.len().checked_sub(ATTEMPTS_MAX) {
        attempts.drain(1..=excess);
    }
}

/// A target as a dead letter shows it: a URL without user, password, query and fragment, any other text unchanged.
/// Control characters are left out.
pub fn target_without_credentials(target: &str) -> String {
    let target: String = target.chars().filter(|c| !c.is_control()).collect();
    let target = target.trim();
    let shown = match authority_begin(target) {
        Some(begin) => {
            let (scheme, rest) = target.split_at(begin);
            let end = rest.find(['?', '#']).unwrap_or(rest.len());
            let rest = &rest[..end];
            let authority = rest.find(['/', '\\']).unwrap_or(rest.len());
            // A user name may contain "@": the last one ends it.
            let host = rest[..authority].rfind('@').map_or(0, |at| at + 1);
            format!("{scheme}{}", &rest[host..])
        }
        None => target.to_owned(),
    };
    shorten(&shown, TARGET_CHARS_MAX)
}

/// Where the authority of a URL begins; none if the text is not a URL. Parsers of URLs accept any number of slashes and
/// backslashes after `http:` and `https:`.
fn authority_begin(target: &str) -> Option<usize> {
    let (scheme, rest) = target.split_once(':')?;
    let is_http = ["http", "https"].iter().any(|name| scheme.eq_ignore_ascii_case(name));
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let slashes = rest.len() - rest.trim_start_matches(['/', '\\']).len();
    (is_http || (is_scheme && slashes >= 2)).then_some(scheme.len() + 1 + slashes)
}

fn shorten(text: &str, chars_max: usize) -> String {
    text.chars().filter(|c| *c != '\0').take(chars_max).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_no_query_and_no_credentials() {
        for (target, shown) in [
            ("https://erp.example.com/hooks/7", "https://erp.example.com/hooks/7"),
            ("https://ann:pw@erp.example.com:8443/a?token=x#y", "https://erp.example.com:8443/a"),
            ("https://ann:p@w@erp.example.com", "https://erp.example.com"),
            ("https://erp.example.com/a@b?c", "https://erp.example.com/a@b"),
            ("HTTPS:\\\\ann:pw@erp.example.com\\a", "HTTPS:\\\\erp.example.com\\a"),
            ("https:/ann:pw@erp.example.com/a", "https:/erp.example.com/a"),
            ("https:ann:pw@erp.example.com", "https:erp.example.com"),
            ("https://erp.example.com?token=x", "https://erp.example.com"),
            ("ftp://ann@files.example.com/?a", "ftp://files.example.com/"),
            ("ann@example.com", "ann@example.com"),
            ("order-approval", "order-approval"),
            ("a\u{0}b\nc", "abc"),
        ] {
            assert_eq!(target_without_credentials(target), shown, "{target}");
        }
        assert_eq!(target_without_credentials(&"x".repeat(600)).len(), TARGET_CHARS_MAX);
    }

    #[test]
    fn targets_of_one_server_have_one_prefix() {
        for (kind, target, prefix) in [
            ("webhook", "https://erp.example.com/hooks/7", "https://erp.example.com/"),
            ("webhook", "https://erp.example.com", "https://erp.example.com/"),
            ("webhook", "https://erp.example.com:8443/a/b", "https://erp.example.com:8443/"),
            ("notify", "https://mail.example.com/send", "https://mail.example.com/"),
            ("notify", "ann@example.com, bob@example.com", ""),
            ("workflow", "order", "order/"),
        ] {
            let letter = DeadLetter { kind: kind.to_owned(), target: target.to_owned(), ..letter() };
            assert_eq!(letter.target_prefix(), prefix, "{kind} {target}");
        }
    }

    fn letter() -> DeadLetter {
        DeadLetter {
            id: DeadLetterId::from_uuid(Uuid::nil()),
            workspace: WorkspaceId::DEFAULT,
            source: DeadLetterSource::Delivery,
            kind: String::new(),
            run: None,
            workflow: None,
            step: None,
            delivery: String::new(),
            history: None,
            event: None,
            subscription: None,
            target: String::new(),
            config: Payload::null(),
            secrets: Vec::new(),
            written: None,
            attempts: Vec::new(),
            created_at: Timestamp::EPOCH,
        }
    }

    #[test]
    fn ids_depend_on_the_failed_work_only() {
        let run = RunId::from_uuid(Uuid::from_u128(7));
        let at = Timestamp::from_millis(1_000);
        let id = |step: &str, attempt| DeadLetter::id_of_step(run, &step.into(), attempt, at);
        assert_eq!(id("a", 3), id("a", 3));
        assert_ne!(id("a", 3), id("a", 4));
        assert_ne!(id("a", 3), id("b", 3));
        assert!(id("a", 3) < DeadLetter::id_of_step(run, &"a".into(), 3, Timestamp::from_millis(1_001)));
    }

    #[test]
    fn the_first_attempt_and_the_last_ones_are_kept() {
        let attempt = |ms| DeadLetterAttempt::failed(Timestamp::EPOCH, ms, &Failure::fatal("HTTP_ERROR", "x"));
        let mut attempts: Vec<_> = (0..3).map(attempt).collect();
        for round in 1..50 {
            add_attempts(&mut attempts, (round * 3..round * 3 + 3).map(attempt));
        }
        assert_eq!(attempts.len(), ATTEMPTS_MAX);
        assert_eq!((attempts[0].ms, attempts[1].ms, attempts[29].ms), (0, 121, 149));
    }

    #[test]
    fn the_status_of_a_response_is_that_of_the_failure() {
        let status = |failure| DeadLetterAttempt::failed(Timestamp::EPOCH, 1, &failure).status;
        assert_eq!(status(Failure::fatal("HTTP_STATUS", "it was refused").with_status(503)), Some(503));
        assert_eq!(status(Failure::fatal("HTTP_ERROR", "no connection: status 503")), None);
    }

    #[test]
    fn texts_of_an_attempt_can_be_stored() {
        let failure = Failure::fatal("A\0B", "x".repeat(3_000));
        let attempt = DeadLetterAttempt::failed(Timestamp::EPOCH, 1, &failure);
        assert_eq!((attempt.code.as_str(), attempt.message.len()), ("AB", MESSAGE_CHARS_MAX));
    }
}
