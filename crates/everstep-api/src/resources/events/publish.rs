//! Publishing events: `POST /v1/topics/{topic}` and `POST /v1/events`.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use everstep_core::decode::describe_error;
use everstep_core::ids::EventId;
use everstep_core::limits;
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use everstep_core::topics::{TopicEvent, check_topic};
use everstep_store::{MatchCounts, PublishOutcome};
use futures_util::future;
use serde_json::{Map, Value};

use super::cloud_event::{self, ContentMode};
use super::draft::{EventDraft, SOURCE_DEFAULT};
use super::wire::{
    MatchedCounts, PublishEvent, PublishEvents, PublishResponse, PublishedEvent, PublishedEvents, PublishedItem,
};
use crate::auth::Caller;
use crate::http::body::Body;
use crate::http::headers::{self, IdempotencyKey};
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::id::new_id;
use crate::run_deadline::within_batcher_deadline;
use crate::server::AppState;

/// Bytes of one event: its data and the attributes around it.
const EVENT_BODY_BYTES_MAX: usize = limits::PAYLOAD_BYTES + 64 * 1024;
/// Bytes and number of events that are published together.
const BATCH_BODY_BYTES_MAX: usize = 16 * limits::PAYLOAD_BYTES;
const BATCH_EVENTS_MAX: usize = 1_000;
/// The headers of an event that is plain JSON.
const ID_HEADER: &str = "Event-Id";
const SOURCE_HEADER: &str = "Event-Source";

pub(super) const WAIT: &[Parameter] = &[Parameter::whole(
    "waitSeconds",
    0,
    30,
    "Respond when the event has reached all subscriptions and waits, or after this many seconds.",
)];

type Answer = Result<(StatusCode, Json<PublishedEvent>), Problem>;

/// Publishes one event to the topic of the path.
pub(super) async fn to_topic(
    State(app): State<AppState>,
    caller: Caller,
    Path(topic): Path<String>,
    query: Query,
    headers: HeaderMap,
    key: IdempotencyKey,
    body: Body<EVENT_BODY_BYTES_MAX>,
) -> Answer {
    let (wait, _place) = app.wait_places.enter(caller.workspace, wait_seconds(&query));
    let draft = match ContentMode::read(&headers)? {
        ContentMode::Plain => plain(&headers, topic.clone(), body.payload()?)?,
        ContentMode::Structured => cloud_event::read_structured(&body)?,
        ContentMode::Binary => cloud_event::read_binary(&headers, body.payload()?)?,
        ContentMode::Batched => {
            let detail = "a batch of CloudEvents is published to many topics";
            return Err(cloud_event::unsupported(detail).hint("send it to POST /v1/events"));
        }
    };
    if draft.topic != topic {
        let detail = format!("type: {:?} is not the topic of the path, {topic:?}", draft.topic);
        return Err(Problem::invalid(detail).with("path", "type").hint("POST /v1/events takes the topic from type"));
    }
    let published = publish(&app, &caller, draft.or_id(key), wait).await?;
    Ok((status(&published), Json(published)))
}

/// Publishes one event, or many.
pub(super) async fn post(
    State(app): State<AppState>,
    caller: Caller,
    query: Query,
    headers: HeaderMap,
    key: IdempotencyKey,
    body: Body<BATCH_BODY_BYTES_MAX>,
) -> Result<(StatusCode, Json<PublishResponse>), Problem> {
    let (wait, _place) = app.wait_places.enter(caller.workspace, wait_seconds(&query));
    let mode = ContentMode::read(&headers)?;
    let drafts = match mode {
        ContentMode::Plain if is_batch(&body)? => {
            let PublishEvents { events } = body.json()?;
            check_count(events.len())?;
            events.into_iter().map(|element| read_event(&element)).collect()
        }
        ContentMode::Batched => {
            let drafts = cloud_event::read_batch(&body)?;
            check_count(drafts.len())?;
            drafts
        }
        ContentMode::Plain | ContentMode::Structured | ContentMode::Binary => {
            let draft = match mode {
                ContentMode::Structured => cloud_event::read_structured(&body)?,
                ContentMode::Binary => cloud_event::read_binary(&headers, body.payload()?)?,
                ContentMode::Plain | ContentMode::Batched => body.json::<PublishEvent>()?.into_draft(),
            };
            let published = publish(&app, &caller, draft.or_id(key), wait).await?;
            return Ok((status(&published), Json(PublishResponse::One(published))));
        }
    };
    if key.into_inner().is_some() {
        let hint = "give each event its own id";
        return Err(Problem::invalid("the header Idempotency-Key cannot apply to many events").hint(hint));
    }
    publish_all(&app, &caller, drafts, wait).await
}

/// Whether the body contains many events.
fn is_batch(body: &Body<BATCH_BODY_BYTES_MAX>) -> Result<bool, Problem> {
    #[derive(serde::Deserialize)]
    struct Peek {
        events: Option<serde::de::IgnoredAny>,
    }
    Ok(body.json::<Peek>()?.events.is_some())
}

fn check_count(count: usize) -> Result<(), Problem> {
    if (1..=BATCH_EVENTS_MAX).contains(&count) {
        return Ok(());
    }
    Err(Problem::invalid(format!("a batch contains 1 to {BATCH_EVENTS_MAX} events, not {count}")))
}

/// Reads one of many events.
fn read_event(element: &Payload) -> Result<EventDraft, Problem> {
    // An array would be decoded as the fields of an object, in order.
    if !element.json().starts_with('{') {
        return Err(Problem::invalid("an event is an object with a topic and data"));
    }
    let event: PublishEvent = serde_json::from_str(element.json())
        .map_err(|error| Problem::invalid(format!("the event is not valid: {}", describe_error(&error))))?;
    Ok(event.into_draft())
}

/// The event of a body that is its data.
fn plain(headers: &HeaderMap, topic: String, data: Payload) -> Result<EventDraft, Problem> {
    let text = |name: &str| -> Result<Option<String>, Problem> {
        let text = headers::once(headers, name)?.map(str::to_owned);
        if let Some(text) = &text {
            headers::check(text, name)?;
        }
        Ok(text)
    };
    Ok(EventDraft {
        topic,
        data,
        id: text(ID_HEADER)?,
        source: text(SOURCE_HEADER)?,
        subject: None,
        extensions: Map::new(),
    })
}

/// Publishes many events. Each is published or rejected separately; they share the cost of the commit.
async fn publish_all(
    app: &AppState,
    caller: &Caller,
    drafts: Vec<Result<EventDraft, Problem>>,
    wait: Duration,
) -> Result<(StatusCode, Json<PublishResponse>), Problem> {
    let published = drafts.into_iter().map(|draft| async { publish(app, caller, draft?, wait).await });
    let published = future::join_all(published).await;
    let is_done = published.iter().flatten().all(|event| event.matched.is_some());
    let events: Vec<_> = published.into_iter().map(PublishedItem::from_result).collect();
    let status = match events.iter().all(PublishedItem::is_published) {
        false => StatusCode::MULTI_STATUS,
        true if is_done => StatusCode::OK,
        true => StatusCode::ACCEPTED,
    };
    Ok((status, Json(PublishResponse::Many(PublishedEvents { events }))))
}

/// Publishes an event, and waits for its fan-out if that is requested.
async fn publish(
    app: &AppState,
    caller: &Caller,
    draft: EventDraft,
    wait: Duration,
) -> Result<PublishedEvent, Problem> {
    let event = make(app, caller, draft)?;
    commit(app, event, wait).await
}

/// The event of a checked draft.
fn make(app: &AppState, caller: &Caller, draft: EventDraft) -> Result<TopicEvent, Problem> {
    check_topic(&draft.topic).map_err(|error| Problem::invalid(format!("topic: {error}")).with("path", "topic"))?;
    draft.check()?;
    let (id, at) = new_event(app);
    let EventDraft { topic, data, id: event_id, source, subject, extensions } = draft;
    Ok(TopicEvent {
        id,
        workspace: caller.workspace,
        topic,
        source: source.unwrap_or_else(|| SOURCE_DEFAULT.to_owned()),
        event_id: event_id.unwrap_or_else(|| id.to_string()),
        at,
        data,
        depth: 0,
        subject,
        extensions: (!extensions.is_empty()).then(|| Payload::from(Value::Object(extensions))),
        replay_of: None,
    })
}

/// The id and the time of an event that is published now.
pub(super) fn new_event(app: &AppState) -> (EventId, Timestamp) {
    let at = app.engine.world().clock.now();
    (EventId::from_uuid(new_id(at)), at)
}

/// Writes an event, and waits for its fan-out if that is requested.
pub(super) async fn commit(app: &AppState, event: TopicEvent, wait: Duration) -> Result<PublishedEvent, Problem> {
    let (workspace, id, topic) = (event.workspace, event.id, event.topic.clone());
    let source = event.source.clone();
    let event_id = event.event_id.clone();
    let publishing = app.engine.topics().publish(event);
    let outcome = within_batcher_deadline(app, "the event publisher of this node", publishing).await?;
    let (id, created, known) = match outcome {
        PublishOutcome::Published => (id, true, None),
        PublishOutcome::Unmatched => (id, true, (!wait.is_zero()).then(MatchCounts::default)),
        PublishOutcome::Known(row) => (row.event.id, false, row.fanned_at.is_some().then_some(row.matched)),
        PublishOutcome::Reused(first) => {
            let detail = format!("source {source:?} has published id {event_id:?} with another topic or other data");
            let problem = Problem::new(StatusCode::CONFLICT, "IDEMPOTENCY_KEY_REUSED", detail);
            return Err(problem.hint("choose another id for another event").with("event", first.to_string()));
        }
    };
    let matched = match known {
        Some(counts) => Some(counts),
        None if wait.is_zero() => None,
        // If the time has passed, or this node stops, the fan-out continues without this request.
        None => match tokio::time::timeout(wait, app.engine.topics().fanned(workspace, id)).await {
            Ok(Ok(row)) => Some(row.matched),
            Ok(Err(_)) | Err(_) => None,
        },
    };
    Ok(PublishedEvent { id, topic, created, matched: matched.map(MatchedCounts::from_counts) })
}

/// 202 while the fan-out continues.
pub(super) fn status(published: &PublishedEvent) -> StatusCode {
    if published.created && published.matched.is_none() { StatusCode::ACCEPTED } else { StatusCode::OK }
}

/// The time for which a caller waits until the fan-out is done.
pub(super) fn wait_seconds(query: &Query) -> Duration {
    Duration::from_secs(query.number("waitSeconds").unwrap_or(0))
}
