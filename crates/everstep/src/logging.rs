//! Log lines, on standard error.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::config::LogConfig;
use crate::exit::invalid;
use crate::settings::LogFormat;

pub fn start(log: &LogConfig) -> anyhow::Result<()> {
    // Statements with their values are logged only if the filter names them.
    let mut filter = log.filter.clone();
    if !log.filter.contains("tokio_postgres") {
        filter = format!("tokio_postgres=info,{filter}");
    }
    // One warning of our own says that the machine has no certificates; this library adds one per file.
    if !log.filter.contains("rustls_platform_verifier") {
        filter = format!("rustls_platform_verifier=error,{filter}");
    }
    let filter = EnvFilter::try_new(&filter).map_err(|error| {
        invalid(format!("{:?} is not a valid log filter: {error}; write for example info or debug", log.filter))
    })?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match log.format {
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()).init(),
        LogFormat::Json => lines.json().init(),
    }
    Ok(())
}
