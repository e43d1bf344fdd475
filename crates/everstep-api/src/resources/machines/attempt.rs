//! Counts and logs every attempt to perform an action, whatever its outcome is.
//!
//! The handler records what it learns about the attempt; the attempt is counted when its answer is sent, or when its
//! handler has panicked. A client that disconnects does not end the handler: the audit runs it to its end.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use everstep_core::actor::Actor;
use everstep_core::ids::RunId;

use super::routes::{ALIAS_TRANSITION, TRANSITION};
use crate::auth::Caller;
use crate::metrics::{AttemptOutcome, Meters};
use crate::server::AppState;

/// Characters of an action in the log.
const ACTION_CHARS_MAX: usize = 64;

/// The facts about an attempt that its handler has learnt. The request carries them.
#[derive(Clone, Default)]
pub(crate) struct AttemptFacts(Arc<Mutex<Facts>>);

#[derive(Default)]
struct Facts {
    workflow: Option<String>,
    /// As the request has it.
    action: Option<String>,
    /// Whether the state machine has the action.
    is_known_action: bool,
    from: Option<String>,
    to: Option<String>,
}

impl AttemptFacts {
    pub(super) fn set_action(&self, action: &str) {
        self.change(|facts| facts.action = Some(action.chars().take(ACTION_CHARS_MAX).collect()));
    }

    /// The workflow of the run, and whether it has the action.
    pub(super) fn set_workflow(&self, name: &str, is_known_action: bool) {
        self.change(|facts| (facts.workflow, facts.is_known_action) = (Some(name.to_owned()), is_known_action));
    }

    pub(super) fn set_states(&self, from: &str, to: Option<&str>) {
        self.change(|facts| (facts.from, facts.to) = (Some(from.to_owned()), to.map(str::to_owned)));
    }

    fn change(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl FromRequestParts<AppState> for AttemptFacts {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().expect("a request for a transition is observed"))
    }
}

/// Observes requests for transitions.
pub(crate) async fn observe_attempt(app: AppState, mut request: Request, next: Next) -> Response {
    let id = match request.method() {
        &Method::POST => {
            [TRANSITION, ALIAS_TRANSITION].into_iter().find_map(|path| find_id(path, request.uri().path()))
        }
        _ => None,
    };
    let Some(id) = id else { return next.run(request).await };
    let caller = request.extensions().get::<Caller>().expect("a guarded route has a caller");
    let mut attempt = Attempt {
        user: caller.actor(),
        run: id.parse().ok(),
        facts: AttemptFacts::default(),
        began: Instant::now(),
        status: None,
        meters: Arc::clone(&app.meters),
    };
    request.extensions_mut().insert(attempt.facts.clone());
    let response = next.run(request).await;
    attempt.status = Some(response.status());
    response
}

/// The id in a path, if the path is that of a route.
fn find_id<'a>(route: &str, path: &'a str) -> Option<&'a str> {
    let (before, after) = route.split_once("{id}")?;
    let id = path.strip_prefix(before)?.strip_suffix(after)?;
    (!id.contains('/')).then_some(id)
}

/// An attempt in progress. It is counted and logged when it is dropped.
struct Attempt {
    meters: Arc<Meters>,
    user: Actor,
    run: Option<RunId>,
    facts: AttemptFacts,
    began: Instant,
    /// The status of the answer; none while there is none.
    status: Option<StatusCode>,
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let facts = self.facts.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (outcome, duration) = (AttemptOutcome::from_status(self.status), self.began.elapsed());
        let action = facts.action.as_deref().filter(|_| facts.is_known_action);
        self.meters.count_transition(facts.workflow.as_deref(), action, outcome, duration);
        if self.status == Some(StatusCode::SERVICE_UNAVAILABLE) {
            self.meters.count_not_acquired();
        }
        tracing::info!(
            instanceId = self.run.map(tracing::field::display),
            action = facts.action.as_deref(),
            fromState = facts.from.as_deref(),
            toState = facts.to.as_deref(),
            userUuid = %self.user,
            durationMs = duration.as_millis() as u64,
            outcome = outcome.as_str(),
            "transition"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_whose_handler_panics_is_counted() {
        let meters: Arc<Meters> = Arc::default();
        let attempt = Attempt {
            meters: Arc::clone(&meters),
            user: Actor::person("ann"),
            run: None,
            facts: AttemptFacts::default(),
            began: Instant::now(),
            status: None,
        };
        attempt.facts.set_action("APPROVE");
        attempt.facts.set_workflow("expense", true);
        let facts = attempt.facts.clone();
        let handler = std::panic::AssertUnwindSafe(move || {
            let _attempt = attempt;
            // The lock of the facts is poisoned, too.
            facts.change(|_| panic!("the handler has a bug"));
        });
        std::panic::catch_unwind(handler).unwrap_err();
        let line =
            "workflow_transitions_total{workflow_code=\"expense\",action=\"APPROVE\",outcome=\"system_error\"} 1";
        assert!(meters.render().lines().any(|shown| shown == line), "{}", meters.render());
    }

    #[test]
    fn only_transitions_are_attempts() {
        assert_eq!(find_id(TRANSITION, "/v1/runs/7/transitions"), Some("7"));
        assert_eq!(find_id(ALIAS_TRANSITION, "/workflow-engine/instances/7/transition"), Some("7"));
        for path in ["/v1/runs/7/transition", "/v1/runs/7/a/transitions", "/v1/runs/transitions", "/v1/runs/7/assign"] {
            assert_eq!(find_id(TRANSITION, path), None, "{path}");
        }
    }
}
