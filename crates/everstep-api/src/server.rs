//! Serves the routes until the server stops.

use std::io;
use std::ops::Deref;
use std::sync::Arc;

use axum::Router;
use everstep_engine::Engine;
use everstep_handlers::sources::Drivers;
use everstep_store::{AccessStore, WorkflowStore};
use everstep_vault::{DataSources, Vault};
use futures_util::future::BoxFuture;
use tokio::net::TcpListener;

use crate::audit::Audit;
use crate::auth::identity::IdentityProvider;
use crate::auth::{Keys, RoleMaps};
use crate::body_memory::BodyMemory;
use crate::checks::Checks;
use crate::http::listen;
use crate::metrics::Meters;
use crate::resources::files::Uploads;
use crate::resources::keys::Quotas;
use crate::routes;
use crate::stream::StreamHub;
use crate::wait_places::WaitPlaces;

/// The state that all routes share. Every request clones it several times: only one reference count changes.
#[derive(Clone)]
pub struct AppState(Arc<AppServices>);

impl AppState {
    pub fn new(services: AppServices) -> Self {
        Self(Arc::new(services))
    }
}

impl Deref for AppState {
    type Target = AppServices;

    fn deref(&self) -> &AppServices {
        &self.0
    }
}

impl AsRef<BodyMemory> for AppState {
    fn as_ref(&self) -> &BodyMemory {
        &self.bodies
    }
}

/// The services that the handlers of routes use.
pub struct AppServices {
    pub engine: Engine,
    pub workflows: Arc<dyn WorkflowStore>,
    pub access: Arc<dyn AccessStore>,
    pub keys: Arc<Keys>,
    /// Verifies the tokens of people, if the server has an identity provider.
    pub identity: Option<Arc<IdentityProvider>>,
    /// Resolves the roles that state machines require.
    pub role_maps: RoleMaps,
    pub audit: Audit,
    pub vault: Arc<Vault>,
    pub sources: Arc<DataSources>,
    pub drivers: Drivers,
    pub meters: Arc<Meters>,
    /// The database's name in messages and metrics: `sqlite`.
    pub store: &'static str,
    /// The streams of runs.
    pub hub: Arc<StreamHub>,
    /// The maximum number of open connections.
    pub connections_max: usize,
    /// The places of requests that wait for the end of a run.
    pub wait_places: WaitPlaces,
    /// The memory of the bodies of requests.
    pub bodies: BodyMemory,
    /// The places of checks of definitions, and of dry runs.
    pub checks: Checks,
    /// The bounds of uploads.
    pub uploads: Uploads,
    /// The bounds of workspaces, for their members.
    pub quotas: Quotas,
    /// Whether browsers receive the web console.
    pub serves_console: bool,
}

pub fn router(app: AppState) -> Router {
    routes::router(app)
}

/// Serves requests until `stop` is ready, then finishes those in progress.
pub fn serve(
    listener: TcpListener,
    app: AppState,
    stop: impl Future<Output = ()> + Send + 'static,
) -> BoxFuture<'static, io::Result<()>> {
    let hub = Arc::clone(&app.hub);
    let stop = async move {
        stop.await;
        // Otherwise open streams would delay the end of the server.
        hub.stop();
    };
    let connections_max = app.connections_max;
    listen::serve(listener, router(app), connections_max, Box::pin(stop))
}
