//! `everstep serve`: the server.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use everstep_api::Served;
use everstep_engine::Engine;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::config::Config;
use crate::signals::Stop;
use crate::{exit, wire};

pub(crate) async fn run(config: &Config) -> anyhow::Result<ExitCode> {
    let server = &config.server;
    let mut stop = Stop::new()?;
    let listener = TcpListener::bind(server.listen).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            anyhow!("port {} is in use; stop who uses it, or choose another with --listen", server.listen.port())
        }
        _ => anyhow!("cannot listen on {}: {error}; choose another address with --listen", server.listen),
    })?;
    let address = listener.local_addr().context("reading the address")?;
    let engine = wire::start(&server.data, &config.engine).await?;
    greet(&format!("http://{address}"), &server.data);

    let (finish, finished) = oneshot::channel::<()>();
    let served = Served { engine: engine.clone(), store: "sqlite" };
    let http = tokio::spawn(everstep_api::serve(listener, served, async {
        // A closed channel means the same.
        let _ = finished.await;
    }));
    tokio::select! {
        name = stop.next() => eprintln!("{name}: stopping; tasks under way have {:?}", server.shutdown_grace),
        () = fenced(&engine) => {
            bail!("another node took over this one's runs; start the server again to join anew");
        }
    }
    drop(finish);
    let stopped = async {
        engine.stop(server.shutdown_grace).await.context("giving the runs back")?;
        // Idle connections are not waited for.
        let _ = tokio::time::timeout(Duration::from_secs(1), http).await;
        anyhow::Ok(())
    };
    tokio::select! {
        stopped = stopped => stopped?,
        name = stop.next() => {
            eprintln!("{name}: stopping at once; the next server goes on with the runs");
            return Ok(ExitCode::from(exit::INTERRUPTED));
        }
    }
    eprintln!("stopped");
    Ok(ExitCode::SUCCESS)
}

fn greet(url: &str, data: &Path) {
    let data = data.canonicalize().unwrap_or_else(|_| data.to_owned());
    eprintln!("everstep {} listens on {url}", env!("CARGO_PKG_VERSION"));
    eprintln!("  health  {url}/readyz");
    eprintln!("  data    {} (SQLite)", data.display());
}

/// Waits until this node may not write any more.
async fn fenced(engine: &Engine) {
    while !engine.is_fenced() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
