//! Liveness and readiness probes. Neither needs an API key.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::wire::{Alive, Database, Readiness};
use crate::server::AppState;

/// The time after which a database that has not replied is not ready.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

const OK: &str = "ok";
const FULL: &str = "full";
const UNAVAILABLE: &str = "unavailable";

/// Responds as long as the process can respond.
pub(crate) async fn live() -> Json<Alive> {
    Json(Alive { status: "ok" })
}

/// Responds 200 while this node may write, its database replies and the disk has space, else 503 with the reason in the
/// same body.
pub(crate) async fn ready(State(app): State<AppState>) -> (StatusCode, Json<Readiness>) {
    let engine = &app.engine;
    let asked = tokio::time::timeout(CHECK_TIMEOUT, engine.check_database()).await;
    let trouble = match asked {
        Ok(Ok(())) => engine.space().refusal.map(|reason| (FULL, format!("the disk is full: {reason}"))),
        Ok(Err(error)) => {
            // Addresses and names of the database are for operators only.
            tracing::warn!(%error, "the database does not reply");
            Some((UNAVAILABLE, "the database is unavailable".to_owned()))
        }
        Err(_) => Some((UNAVAILABLE, format!("no reply within {} s", CHECK_TIMEOUT.as_secs()))),
    };
    let is_ready = trouble.is_none() && !engine.is_fenced() && engine.is_in_touch();
    let code = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let (store_status, error) = trouble.map_or((OK, None), |(status, error)| (status, Some(error)));
    let skew = engine.world().clock.large_skew_seconds();
    let body = Readiness {
        status: if is_ready { OK } else { UNAVAILABLE },
        node: engine.node(),
        store: Database { kind: app.store, status: store_status, error },
        active_runs: engine.active_runs(),
        fenced: engine.is_fenced(),
        in_touch: engine.is_in_touch(),
        clock_skew_seconds: skew.map(|seconds| (seconds * 10.0).round() / 10.0),
    };
    (code, Json(body))
}
