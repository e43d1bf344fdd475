//! Events that a run publishes.
//!
//! 1. A step publishes at most one event. Its source is `run:` and the run's id, its event id is the step's key unless
//!    the step names another: so it is published once across retries, reloads and changes of the owner.
//! 2. The event is a row of the item that completes the step. A fork copies entries and publishes none of them again.
//! 3. A run publishes an id once. Another step that publishes the same topic, data and subject under it completes with the
//!    first event, and writes none; with anything else it fails.
//! 4. The depth is that of the run's trigger and one more. Beyond [`EVENT_DEPTH_MAX`] the step fails: two workflows that
//!    publish for each other would never end.

use serde::{Deserialize, Serialize};

use super::{TopicEvent, check_topic};
use crate::failure::{Failure, code};
use crate::ids::{EventId, RunId, StepKey, WorkspaceId};
use crate::journal::{Entry, Event, Outcome};
use crate::limits;
use crate::payload::{self, Payload};
use crate::retry;
use crate::run::State;
use crate::time::Timestamp;

/// The greatest depth of an event.
pub const EVENT_DEPTH_MAX: u32 = 32;
/// Characters of the id of an event, and of its subject.
const EVENT_ID_CHARS_MAX: usize = 255;

/// An event that a step publishes, as the entry of its completion holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Publication {
    pub topic: String,
    pub data: Payload,
    /// The id that the author chose; the step's key if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

/// The outcome of a step that publishes, or why it fails.
pub(crate) fn publish(
    publication: Publication,
    (step, attempt): (&StepKey, u32),
    state: &State,
    now: Timestamp,
) -> Result<Outcome, Failure> {
    let invalid = |message: String| Failure::fatal(code::INVALID_CONFIG, message);
    check_topic(&publication.topic).map_err(invalid)?;
    for (what, text) in [("id", &publication.id), ("subject", &publication.subject)] {
        let chars = text.as_ref().map_or(1, |text| text.chars().count());
        if !(1..=EVENT_ID_CHARS_MAX).contains(&chars) {
            return Err(invalid(format!("the {what} of an event has 1 to {EVENT_ID_CHARS_MAX} characters")));
        }
    }
    let size = publication.data.size();
    if size > limits::PAYLOAD_BYTES {
        let message = format!("the data of {step} has {size} bytes, more than {}", limits::PAYLOAD_BYTES);
        return Err(Failure::fatal(code::PAYLOAD_TOO_LARGE, message));
    }
    payload::check(publication.data.json())
        .map_err(|error| Failure::fatal(error.code(), format!("the data of {step} {error}")))?;
    if depth(state) > EVENT_DEPTH_MAX {
        let message = format!(
            "events start one another at most {EVENT_DEPTH_MAX} times in a row: a run of an event publishes an event \
             that leads back to it"
        );
        return Err(Failure::fatal(code::EVENT_LOOP, message));
    }
    let output = |id: EventId, is_created: bool| {
        let output = serde_json::json!({"id": id.to_string(), "topic": publication.topic, "created": is_created});
        Outcome::from_output(output)
    };
    let event_id = publication.id.as_deref().unwrap_or(step.as_str());
    if let Some(first) = state.published.find(event_id) {
        if first.is_same(&publication) {
            return Ok(output(first.id, false));
        }
        let message = format!(
            "the run has published the event {} under the id {event_id:?}, with another topic, other data or another \
             subject; use another id",
            first.id
        );
        return Err(Failure::fatal(code::IDEMPOTENCY_KEY_REUSED, message));
    }
    // The times of a journal never decrease: this is the time of the entry.
    let id = new_id(state.run, step, attempt, now.max(state.updated_at));
    let outcome = output(id, true);
    Ok(Outcome { published: Some(Box::new(publication)), ..outcome })
}

/// The events that the entries of one item publish. `state` is the state after the item.
pub fn published_after(state: &State, workspace: WorkspaceId, entries: &[Entry]) -> Vec<TopicEvent> {
    entries.iter().filter_map(|entry| published_by(state, workspace, entry)).collect()
}

fn published_by(state: &State, workspace: WorkspaceId, entry: &Entry) -> Option<TopicEvent> {
    let Event::StepCompleted { step, attempt, outcome: Outcome { published: Some(published), .. } } = &entry.event
    else {
        return None;
    };
    Some(TopicEvent {
        id: new_id(state.run, step, *attempt, entry.at),
        workspace,
        topic: published.topic.clone(),
        source: format!("run:{}", state.run),
        event_id: published.id.clone().unwrap_or_else(|| step.to_string()),
        at: entry.at,
        data: published.data.clone(),
        depth: depth(state),
        subject: published.subject.clone(),
        extensions: None,
        replay_of: None,
    })
}

/// The depth of the events that a run publishes.
fn depth(state: &State) -> u32 {
    state.trigger().map_or(0, |trigger| trigger.depth.saturating_add(1))
}

/// The id of the event of one attempt: unique, and the same on every node that decides it at that time.
fn new_id(run: RunId, step: &StepKey, attempt: u32, at: Timestamp) -> EventId {
    let run = run.uuid().as_u128();
    let half = |run: u128| u128::from(retry::seed(run, step.as_str(), attempt));
    EventId::new(at, half(run.rotate_left(17)) << 64 | half(run.rotate_left(43) ^ u128::from(u64::MAX)))
}
