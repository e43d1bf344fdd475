//! The routes, and serving them until it is time to stop.

use std::io;

use axum::Router;
use axum::routing::get;
use everstep_engine::Engine;
use tokio::net::TcpListener;

use crate::{health, problem};

/// What the routes speak about.
#[derive(Clone)]
pub struct Served {
    pub engine: Engine,
    /// The database's name, for people: `sqlite`.
    pub store: &'static str,
}

pub fn router(served: Served) -> Router {
    Router::new()
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .fallback(problem::not_found)
        .with_state(served)
}

/// Answers requests until `stop` is ready, then finishes those that it has begun.
pub async fn serve(
    listener: TcpListener,
    served: Served,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    axum::serve(listener, router(served)).with_graceful_shutdown(stop).await
}
