//! A server in this process, for clients over HTTP.

use std::sync::Arc;

use anyhow::Context;
use everstep_api::auth::{ApiKey, Keys, Permission, RoleMaps};
use everstep_api::{
    AppServices, AppState, Audit, BodyMemory, BodyOptions, CheckOptions, Checks, Meters, Quotas, StreamHub, Streams,
    Uploads, WaitPlaces,
};
use everstep_core::ids::WorkspaceId;
use everstep_engine::Engine;
use everstep_handlers::Ports;
use everstep_store::Stores;
use everstep_vault::{DataSources, Vault};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub(super) struct Remote {
    pub(super) address: String,
    /// An API key with all permissions and no rate limit.
    pub(super) key: String,
    server: JoinHandle<()>,
}

impl Remote {
    /// Serves the API of an engine, on a port of its own.
    pub(super) async fn serve(engine: &Engine, stores: Stores) -> anyhow::Result<Self> {
        let secret = ApiKey::generate();
        let now = engine.world().clock.now();
        stores.access.add_key(&secret.row(WorkspaceId::DEFAULT, "bench", &[Permission::Admin], now)).await?;
        let listener = TcpListener::bind("127.0.0.1:0").await.context("listening")?;
        let address = listener.local_addr().context("reading the address")?.to_string();
        let meters: Arc<Meters> = Arc::default();
        let app = AppState::new(AppServices {
            engine: engine.clone(),
            workflows: stores.workflows,
            access: Arc::clone(&stores.access),
            keys: Arc::new(Keys::new(Arc::clone(&stores.access), 0)),
            identity: None,
            role_maps: RoleMaps::new(Default::default(), Arc::clone(&stores.access)),
            audit: Audit::start(Arc::clone(&stores.access), &meters),
            vault: Arc::new(Vault::new(Arc::clone(&stores.resources), None)),
            sources: Arc::new(DataSources::new(stores.resources)),
            drivers: Ports::none().drivers,
            meters,
            hub: Arc::new(StreamHub::new(Streams::default())),
            connections_max: 10_000,
            wait_places: WaitPlaces::new(10_000),
            bodies: BodyMemory::new(BodyOptions::default()),
            checks: Checks::new(CheckOptions::default()),
            uploads: Uploads::default(),
            quotas: Quotas::default(),
            serves_console: true,
            store: "bench",
        });
        let server = tokio::spawn(async move {
            if let Err(error) = everstep_api::serve(listener, app, std::future::pending()).await {
                super::report::tell(&format!("the server of the benchmark has ended: {error}"));
            }
        });
        Ok(Self { address, key: secret.reveal().to_owned(), server })
    }

    pub(super) fn end(self) {
        self.server.abort();
    }
}
