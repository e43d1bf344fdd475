//! `/metrics`.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing;
use everstep_core::ids::WorkspaceId;
use futures_util::future::BoxFuture;
use tokio::net::TcpListener;

use crate::auth::Caller;
use crate::http::listen;
use crate::http::problem::Problem;
use crate::metrics::topics;
use crate::server::AppState;

/// The content type of the Prometheus text format.
pub(crate) const CONTENT_TYPE_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The counts of the database are cached for this time.
const COUNTS_TTL: Duration = Duration::from_secs(5);

/// The page for an API key. The figures are those of the whole node, so only its operators may read them.
pub(crate) async fn get(State(app): State<AppState>, caller: Caller) -> Result<impl IntoResponse, Problem> {
    if caller.workspace != WorkspaceId::DEFAULT {
        let detail = "the figures of a node are only for API keys of the default workspace";
        return Err(Problem::new(StatusCode::FORBIDDEN, "PERMISSION_DENIED", detail));
    }
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE_TEXT)], page(&app).await))
}

/// Serves only this page, to every client that can reach this address.
pub fn serve(listener: TcpListener, app: AppState) -> BoxFuture<'static, io::Result<()>> {
    let show = async |State(app): State<AppState>| ([(header::CONTENT_TYPE, CONTENT_TYPE_TEXT)], page(&app).await);
    let router = Router::new().route("/metrics", routing::get(show)).with_state(app);
    listen::serve(listener, router, usize::MAX, Box::pin(std::future::pending()))
}

async fn page(app: &AppState) -> String {
    let (engine, meters) = (&app.engine, &app.meters);
    meters.gauge("everstep_runs_held").set(engine.active_runs() as f64);
    meters.gauge("everstep_records_waiting").set(engine.records().waiting() as f64);
    if let Some(free) = engine.space().free_bytes {
        meters.gauge("everstep_disk_free_bytes").set(free as f64);
    }
    meters.count("everstep_conflicts_total", engine.conflicts());
    meters.count("everstep_slow_decisions_total", engine.slow_decisions());
    meters.count("everstep_store_calls_total", engine.database_calls());
    if let Err(error) = count_runs(app).await {
        // The rest of the page is useful while the database is unavailable.
        tracing::warn!(%error, "runs in flight could not be counted for the metrics");
    }
    meters.render()
}

async fn count_runs(app: &AppState) -> everstep_store::Result<()> {
    if !app.meters.must_count(COUNTS_TTL) {
        return Ok(());
    }
    let mut in_flight: BTreeMap<String, i64> = BTreeMap::new();
    for workspace in app.access.workspaces().await? {
        for counts in app.engine.counts(workspace.id).await? {
            *in_flight.entry(counts.workflow).or_default() += if counts.status.has_ended() { 0 } else { counts.n };
        }
    }
    app.meters.show_in_flight(&in_flight);
    let open = app.engine.world().topics.count_open_events().await?;
    app.meters.gauge(topics::OPEN).set(open as f64);
    app.meters.show_dead_letters(&app.engine.dead_letters().store().count_dead_letters().await?);
    Ok(())
}
