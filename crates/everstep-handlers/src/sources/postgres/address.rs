//! The address of a database, and how to connect to it.

use everstep_core::failure::Failure;
use everstep_core::ids::WorkspaceId;
use everstep_net::tls::{self, Trust};
use tokio_postgres::Config;
use tokio_postgres::config::{ChannelBinding, Host, SslMode as Wanted};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::ports::Secrets;
use crate::sources::QUERY_ERROR;
use crate::sources::source::{PostgresSource, SslMode};

/// A database, with the credentials for it.
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) config: Config,
    pub(super) tls: MakeRustlsConnect,
}

impl Address {
    /// Reveals the secrets that the source names.
    pub(super) async fn from_source(
        source: &PostgresSource,
        workspace: WorkspaceId,
        secrets: &dyn Secrets,
    ) -> Result<Self, Failure> {
        let mut mode = source.ssl_mode;
        let (host, port, mut config) = match &source.url {
            Some(secret) => {
                let url = secrets.reveal(workspace, &secret.name).await?;
                let named = Named::parse(&url).map_err(|reason| {
                    unusable(format!("the secret {:?} is not a valid URL of a database: {reason}", secret.name))
                })?;
                mode = mode.or(named.mode);
                (named.host, named.port, named.config)
            }
            None => {
                let mut config = Config::new();
                config.user(source.user.as_deref().unwrap_or_default());
                config.dbname(source.database.as_deref().unwrap_or_default());
                if let Some(secret) = &source.password {
                    config.password(secrets.reveal(workspace, &secret.name).await?.as_bytes());
                }
                (source.host.clone().unwrap_or_default(), source.port.unwrap_or(5432), config)
            }
        };
        config.application_name("everstep");
        let (wanted, trust) = choose_tls(mode.unwrap_or(SslMode::Prefer), source.root_certificate.as_deref())?;
        config.ssl_mode(wanted);
        let tls = MakeRustlsConnect::new(tls::config(trust).map_err(|error| unusable(error.to_string()))?);
        Ok(Self { host, port, config, tls })
    }
}

/// The TLS mode and the trusted certificates.
fn choose_tls(mode: SslMode, pem: Option<&str>) -> Result<(Wanted, Trust), Failure> {
    let given = pem.map(|pem| tls::roots(pem.as_bytes())).transpose();
    let given = given.map_err(|error| unusable(format!("the certificates cannot be used: {error}")))?;
    Ok(match (mode, given) {
        (SslMode::Disable, _) => (Wanted::Disable, Trust::Anyone),
        (SslMode::Prefer, _) => (Wanted::Prefer, Trust::Anyone),
        (SslMode::Require, _) => (Wanted::Require, Trust::Anyone),
        (SslMode::VerifyCa, Some(roots)) => (Wanted::Require, Trust::SignedBy(roots)),
        (SslMode::VerifyFull, Some(roots)) => (Wanted::Require, Trust::NamedAndSignedBy(roots)),
        // The certificates of the web are valid for many owners: only the name identifies the server.
        (SslMode::VerifyCa | SslMode::VerifyFull, None) => (Wanted::Require, Trust::NamedAndSignedBy(tls::web_roots())),
    })
}

/// The contents of a URL.
struct Named {
    host: String,
    port: u16,
    config: Config,
    mode: Option<SslMode>,
}

impl Named {
    /// Parses a URL. An error contains no part of it.
    fn parse(url: &str) -> Result<Self, String> {
        let url = url.trim();
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err("it must begin with postgres://".to_owned());
        }
        let (place, parameters) = url.split_once('?').unwrap_or((url, ""));
        let parsed: Config = place.parse().map_err(|_| "it cannot be parsed".to_owned())?;
        let [Host::Tcp(host)] = parsed.get_hosts() else {
            return Err("it must name one host".to_owned());
        };
        let (Some(user), Some(database)) = (parsed.get_user(), parsed.get_dbname()) else {
            return Err("it must name a user and a database".to_owned());
        };
        let mut config = Config::new();
        config.user(user).dbname(database);
        if let Some(password) = parsed.get_password() {
            config.password(password);
        }
        let mut mode = None;
        for pair in parameters.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", "disable")) => mode = Some(SslMode::Disable),
                Some(("sslmode", "prefer")) => mode = Some(SslMode::Prefer),
                Some(("sslmode", "require")) => mode = Some(SslMode::Require),
                Some(("sslmode", "verify-ca")) => mode = Some(SslMode::VerifyCa),
                Some(("sslmode", "verify-full")) => mode = Some(SslMode::VerifyFull),
                Some(("channel_binding", "require")) => {
                    config.channel_binding(ChannelBinding::Require);
                }
                Some(("channel_binding", "prefer" | "disable")) => {}
                _ => return Err("after the `?` only sslmode and channel_binding are allowed".to_owned()),
            }
        }
        let port = parsed.get_ports().first().copied().unwrap_or(5432);
        Ok(Self { host: host.clone(), port, config, mode })
    }
}

fn unusable(message: String) -> Failure {
    Failure::fatal(QUERY_ERROR, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_whole() {
        let named = Named::parse("postgres://me:pass%20word@db.example:6543/orders?sslmode=require").unwrap();
        assert_eq!((named.host.as_str(), named.port, named.mode), ("db.example", 6543, Some(SslMode::Require)));
        assert_eq!(named.config.get_password(), Some(b"pass word".as_slice()));
        assert_eq!((named.config.get_user(), named.config.get_dbname()), (Some("me"), Some("orders")));
    }

    #[test]
    fn a_url_leads_to_one_host_and_nowhere_else() {
        for url in [
            "mysql://me@host/db",
            "postgres://me@/db?host=/var/run/postgresql",
            "postgres://me@%2Fvar%2Frun/db",
            "postgres://me@a,b/db",
            "postgres://me@host/db?hostaddr=127.0.0.1",
            "postgres://me@host/db?options=-c%20x",
            "postgres://host",
        ] {
            let reason = Named::parse(url).err().unwrap_or_else(|| panic!("{url} was accepted"));
            assert!(!reason.contains("host/db"), "{reason}");
        }
    }
}
