//! `POST /v1/topics/{pattern}/subscriptions`.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use everstep_core::ids::SubscriptionId;
use everstep_core::limits;
use everstep_core::topics::{self, Origin, Target};
use everstep_store::SubscriptionOutcome;

use super::check;
use super::wire::{SubscribeRequest, Subscription, TargetType};
use crate::auth::Caller;
use crate::http::body::Body;
use crate::http::headers::IdempotencyKey;
use crate::http::problem::Problem;
use crate::id::{keyed_id, new_id};
use crate::server::AppState;

type Answer = Result<(StatusCode, [(HeaderName, HeaderValue); 1], Json<Subscription>), Problem>;

/// Creates a subscription. It receives the events that are published from now on.
pub(super) async fn post(
    State(app): State<AppState>,
    caller: Caller,
    Path(pattern): Path<String>,
    key: IdempotencyKey,
    body: Body<{ 256 * 1024 }>,
) -> Answer {
    check_target(&body)?;
    let new = read(&app, &caller, &pattern, body.json()?)?;
    let topics = &app.engine.world().topics;
    let is_keyed = key.into_inner().map(|key| keyed_id("subscription", caller.workspace.uuid(), &key));
    let new = match is_keyed {
        Some(id) => topics::Subscription { id: SubscriptionId::from_uuid(id), ..new },
        None => new,
    };
    if is_keyed.is_some()
        && let Some(known) = topics.subscription(caller.workspace, new.id).await?
    {
        return repeated(&new, known);
    }
    match topics.add_subscription(&new, limits::SUBSCRIPTIONS).await {
        Ok(SubscriptionOutcome::Added) => Ok(answer(StatusCode::CREATED, new)),
        Ok(SubscriptionOutcome::QuotaReached(count)) => {
            let allowed = limits::SUBSCRIPTIONS;
            let detail = format!("the workspace has {count} subscriptions; at most {allowed} are allowed");
            let hint = "delete subscriptions, or use one with a wider pattern and a filter";
            Err(Problem::new(StatusCode::CONFLICT, "QUOTA_REACHED", detail).hint(hint).with("count", count))
        }
        // A request with the same key may have created it at the same time.
        Err(error) if is_keyed.is_some() && matches!(error, everstep_store::Error::Refused(_)) => {
            let known = topics.subscription(caller.workspace, new.id).await?.ok_or(error)?;
            repeated(&new, known)
        }
        Err(error) => Err(error.into()),
    }
}

/// Rejects targets that are not available, before their fields are read.
fn check_target<const BYTES_MAX: usize>(body: &Body<BYTES_MAX>) -> Result<(), Problem> {
    #[derive(serde::Deserialize)]
    struct Peek {
        r#type: TargetType,
    }
    let Peek { r#type } = body.json()?;
    let name = match r#type {
        TargetType::Workflow => return Ok(()),
        TargetType::Queue => "queue",
        TargetType::Http => "http",
        TargetType::Https => "https",
    };
    let detail = format!("type: {name:?} is not available as the target of a subscription");
    let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "TARGET_NOT_AVAILABLE", detail);
    Err(problem.with("path", "type").hint("this server supports the type \"workflow\""))
}

fn read(
    app: &AppState,
    caller: &Caller,
    pattern: &str,
    request: SubscribeRequest,
) -> Result<topics::Subscription, Problem> {
    let SubscribeRequest { name, version, filter, input, key, retention_days, .. } = request;
    let pattern = check::read_pattern(pattern)?;
    check::check_name(&name)?;
    check::check_version(version)?;
    let filter = filter.map(|filter| check::read_filter(app, &filter)).transpose()?;
    if let Some(input) = &input {
        check::check_input(app, input)?;
    }
    if let Some(key) = &key {
        check::check_key(app, key)?;
    }
    let created_at = app.engine.world().clock.now();
    Ok(topics::Subscription {
        id: SubscriptionId::from_uuid(new_id(created_at)),
        workspace: caller.workspace,
        pattern,
        filter,
        target: Target::Workflow { name, version, retention_days, key },
        input,
        origin: Origin::Api,
        paused_at: None,
        created_at,
    })
}

/// The answer to a request whose key has created a subscription before.
fn repeated(new: &topics::Subscription, known: topics::Subscription) -> Answer {
    let parts = |subscription: &topics::Subscription| {
        let filter = subscription.filter.as_ref().map(|filter| filter.written().value().clone());
        let input = subscription.input.as_ref().map(|input| input.value().clone());
        (subscription.pattern.clone(), subscription.target.clone(), filter, input)
    };
    if parts(new) == parts(&known) {
        return Ok(answer(StatusCode::OK, known));
    }
    let detail = "another subscription was created with this Idempotency-Key";
    let problem = Problem::new(StatusCode::CONFLICT, "IDEMPOTENCY_KEY_REUSED", detail);
    Err(problem.hint("choose another Idempotency-Key for another request"))
}

fn answer(
    status: StatusCode,
    subscription: topics::Subscription,
) -> (StatusCode, [(HeaderName, HeaderValue); 1], Json<Subscription>) {
    let place = HeaderValue::from_str(&format!("/v1/subscriptions/{}", subscription.id)).expect("an id is plain text");
    (status, [(header::LOCATION, place)], Json(Subscription::from_core(subscription)))
}
