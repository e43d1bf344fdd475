//! Liveness and readiness probes. Neither needs an API key.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::wire::{Alive, Database, Readiness};
use crate::server::AppState;

/// The time after which a database that has not replied is not ready.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// Responds as long as the process can respond.
pub(crate) async fn live() -> Json<Alive> {
    Json(Alive { status: "ok" })
}

/// Responds 200 while this node may write and its database replies, else 503 with the reason in the same body.
pub(crate) async fn ready(State(app): State<AppState>) -> (StatusCode, Json<Readiness>) {
    let engine = &app.engine;
    let asked = tokio::time::timeout(CHECK_TIMEOUT, engine.check_database()).await;
    let trouble = match asked {
        Ok(Ok(())) => None,
        Ok(Err(error)) => {
            // Addresses and names of the database are for operators only.
            tracing::warn!(%error, "the database does not reply");
            Some("the database is unavailable".to_owned())
        }
        Err(_) => Some(format!("no reply within {} s", CHECK_TIMEOUT.as_secs())),
    };
    let is_ready = trouble.is_none() && !engine.is_fenced() && engine.is_in_touch();
    let code = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let status = |is_well| if is_well { "ok" } else { "unavailable" };
    let skew = engine.world().clock.large_skew_seconds();
    let body = Readiness {
        status: status(is_ready),
        node: engine.node(),
        store: Database { kind: app.store, status: status(trouble.is_none()), error: trouble },
        active_runs: engine.active_runs(),
        fenced: engine.is_fenced(),
        in_touch: engine.is_in_touch(),
        clock_skew_seconds: skew.map(|seconds| (seconds * 10.0).round() / 10.0),
    };
    (code, Json(body))
}
