//! `everstep serve`: the server.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use everstep_api::auth::identity::IdentityProvider;
use everstep_api::auth::{ApiKey, Keys, RoleMaps};
use everstep_api::{
    AppServices, AppState, Audit, BodyMemory, CheckOptions, Checks, Meters, Quotas, StreamHub, Uploads, WaitPlaces,
};
use everstep_engine::NodeClock;
use everstep_net::Client;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::config::Config;
use crate::database::DatabaseConfig;
use crate::first_key::{self, FirstKey};
use crate::signals::StopSignals;
use crate::spans::Spans;
use crate::telemetry::Observers;
use crate::wire::LocalNode;
use crate::{exit, remote, server_address, text, wire};

/// The time limit for writing the last rows of the audit.
const AUDIT_FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) async fn run(config: &Config) -> anyhow::Result<ExitCode> {
    let server = &config.server;
    let mut stop = StopSignals::new()?;
    let listener = everstep_api::bind(server.listen).map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            anyhow!(
                "port {} is already in use; stop the other process, or choose another port with --listen",
                server.listen.port()
            )
        }
        _ => anyhow!("cannot listen on {}: {error}; choose another address with --listen", server.listen),
    })?;
    let address = listener.local_addr().context("reading the address")?;
    let stores = wire::open_stores(&server.data, &config.database).await?;
    let key = first_key::ensure(&*stores.access, &server.data, NodeClock::system().now()).await?;
    let keys = Keys::new(Arc::clone(&stores.access), server.rate_limit);
    let keys = Arc::new(match server.workspace_rate_limit {
        Some(rate_limit) => keys.with_workspace_rate(rate_limit),
        None => keys,
    });
    let identity = config.identity.clone().map(|options| {
        let client = Client::new(config.engine.guard.clone());
        Arc::new(IdentityProvider::new(options, client, Arc::clone(&stores.access)))
    });
    let vault = wire::open_vault(&stores.resources, &server.data, config)?;
    let meters = Arc::new(Meters::default());
    let audit = Audit::start(Arc::clone(&stores.access), &meters);
    let spans = match &config.telemetry.tracing {
        Some(tracing) => Some(Arc::new(Spans::start(tracing.clone()).await?)),
        None => None,
    };
    if config.engine.ops_url.is_none() {
        tracing::warn!("EVERSTEP_OPS_WEBHOOK_URL is not set: operators are not notified of dead letters");
    }
    let observers = Observers { meters: Arc::clone(&meters), spans: spans.clone() };
    let node = LocalNode::start(stores.clone(), &vault, config, Arc::new(observers)).await?;
    if matches!(config.database, DatabaseConfig::Sqlite)
        && let Err(error) = server_address::write(&server.data, address)
    {
        tracing::warn!(%error, "commands on this machine do not find this server by its data folder");
    }
    greet(&format!("http://{address}"), &node, config, &key);

    let (finish, finished) = oneshot::channel::<()>();
    let engine = node.engine.clone();
    let hub = Arc::new(StreamHub::new(server.streams));
    let wire::DataServices { sources, drivers } = node.data.clone();
    let store = config.database.kind();
    let roles = config.identity.as_ref().map(|identity| identity.roles.clone()).unwrap_or_default();
    let role_maps = RoleMaps::new(roles, Arc::clone(&stores.access));
    let app = AppState::new(AppServices {
        engine,
        workflows: stores.workflows,
        access: stores.access,
        keys,
        identity,
        role_maps,
        audit: audit.clone(),
        vault,
        sources,
        drivers,
        meters,
        store,
        hub,
        connections_max: server.connections_max,
        wait_places: WaitPlaces::new(server.connections_max),
        bodies: BodyMemory::new(server.bodies),
        checks: Checks::new(CheckOptions::default()),
        uploads: server.file_bytes_max.map_or_else(Uploads::default, Uploads::new),
        quotas: Quotas::default(),
        serves_console: server.serves_console,
    });
    tokio::spawn(Arc::clone(&app.meters).keep());
    if let Some(address) = config.telemetry.metrics_listen {
        let listener = TcpListener::bind(address).await.with_context(|| format!("listening on {address}"))?;
        tokio::spawn(everstep_api::serve_metrics(listener, app.clone()));
    }
    let http = tokio::spawn(everstep_api::serve(listener, app, async {
        // A closed channel means the same.
        let _ = finished.await;
    }));
    let name = stop.next().await;
    eprintln!("{name}: stopping; tasks in progress have {:?}", server.shutdown_grace);
    drop(finish);
    let stopped = async {
        if matches!(config.database, DatabaseConfig::Sqlite) {
            server_address::remove(&server.data);
        }
        node.stop(server.shutdown_grace).await?;
        // The shutdown does not wait for idle connections.
        let _ = tokio::time::timeout(Duration::from_secs(1), http).await;
        if tokio::time::timeout(AUDIT_FLUSH_TIMEOUT, audit.flush()).await.is_err() {
            tracing::error!("the database did not accept the last rows of the audit; they are lost");
        }
        if let Some(spans) = spans {
            tokio::task::spawn_blocking(move || spans.close()).await.context("sending the last spans")?;
        }
        anyhow::Ok(())
    };
    tokio::select! {
        stopped = stopped => stopped?,
        name = stop.next() => {
            eprintln!("{name}: stopping at once; the next server continues the runs");
            return Ok(ExitCode::from(exit::INTERRUPTED));
        }
    }
    eprintln!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Prints the addresses and folders, and a first command.
fn greet(url: &str, node: &LocalNode, config: &Config, key: &FirstKey) {
    eprintln!("everstep {} listens on {url}", env!("CARGO_PKG_VERSION"));
    eprintln!("  health  {url}/readyz");
    eprintln!("  docs    {url}/docs");
    if config.server.serves_console {
        eprintln!("  open    {}", open_command(url, config));
    }
    match &config.database {
        DatabaseConfig::Sqlite => eprintln!("  data    {} (SQLite)", absolute(&config.server.data).display()),
        DatabaseConfig::Postgres { url, .. } => eprintln!("  data    {} (PostgreSQL)", url.location()),
    }
    eprintln!("  node    {}", node.engine.node());
    if let Some((address, _)) = &node.cluster {
        eprintln!("  others  reach it at {address}");
    }
    let try_it = |path: &Path| {
        format!("  try     curl -H \"x-api-key: $(cat {})\" {url}/v1/workflows", text::quoted(&absolute(path)))
    };
    match key {
        FirstKey::Made(secret, path) => {
            eprintln!("{}", key_line(secret, path, std::io::stderr().is_terminal()));
            eprintln!("{}", try_it(path));
        }
        FirstKey::Kept(path) => eprintln!("{}", try_it(path)),
        FirstKey::Unknown => eprintln!("  keys    are in the database; create another with `everstep keys create`"),
    }
}

/// The command that opens the console of this server. It finds the server by its data folder or its address.
fn open_command(url: &str, config: &Config) -> String {
    let data = &config.server.data;
    let folder = (*data != remote::data_folder()).then(|| format!("EVERSTEP_DATA={} ", text::quoted(&absolute(data))));
    let is_found = matches!(config.database, DatabaseConfig::Sqlite) || url == remote::DEFAULT_URL;
    let server = (!is_found).then(|| format!(" --server {url}"));
    format!("{}everstep open{}", folder.unwrap_or_default(), server.unwrap_or_default())
}

/// The line about a new admin API key. Only a terminal shows the key itself: logs are kept, copied and sent elsewhere.
fn key_line(secret: &ApiKey, path: &Path, is_terminal: bool) -> String {
    let path = path.display();
    if is_terminal {
        format!("  key     {} (admin; shown only once, and stored in {path})", secret.reveal())
    } else {
        format!("  key     a new admin API key is in {path}")
    }
}

fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_terminal_shows_the_first_key() {
        let (secret, path) = (ApiKey::generate(), Path::new("/data/admin.key"));
        let shown = key_line(&secret, path, true);
        assert!(shown.contains(secret.reveal()) && shown.contains("/data/admin.key"), "{shown}");
        let logged = key_line(&secret, path, false);
        assert!(!logged.contains("es_") && logged.contains("/data/admin.key"), "{logged}");
    }
}
