//! The address of a database: `postgres://user:password@host:port/name?sslmode=…`.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::errors;
use super::tls::{self, Trust};
use crate::error::{Error, Result};

/// The address of a database, and how to connect to it.
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) tls: MakeRustlsConnect,
}

impl Address {
    /// Parses a URL. An unknown parameter is an error.
    pub(super) fn parse(url: &str) -> Result<Self> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(unusable("it must begin with postgres://"));
        }
        let (plain, security) = Security::split_from_url(url)?;
        let mut config: Config = plain.parse().map_err(|error| unusable(&errors::describe(&error)))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(unusable("it names no host"));
        }
        if config.get_dbname().is_none_or(str::is_empty) {
            return Err(unusable("it names no database: postgres://host/name"));
        }
        let (mode, trust) = security.decide()?;
        config.ssl_mode(mode);
        Ok(Self { config, tls: tls::connector(trust)? })
    }

    /// Its name in messages: without the password.
    pub(super) fn name(&self) -> String {
        let ports = self.config.get_ports();
        let port = |index: usize| ports.get(index).or_else(|| ports.first()).copied().unwrap_or(5432);
        let hosts = self.config.get_hosts().iter().enumerate().map(|(index, host)| match host {
            Host::Tcp(name) => format!("{name}:{}", port(index)),
            Host::Unix(path) => format!("{}:{}", path.display(), port(index)),
        });
        hosts.collect::<Vec<_>>().join(",")
    }
}

/// The parameters about TLS, of which we support more than the driver does.
#[derive(Debug, Default, PartialEq)]
struct Security {
    mode: Option<String>,
    root: Option<PathBuf>,
}

impl Security {
    /// Removes the parameters from a URL.
    fn split_from_url(url: &str) -> Result<(String, Self)> {
        let Some((address, query)) = url.split_once('?') else {
            return Ok((url.to_owned(), Self::default()));
        };
        let mut security = Self::default();
        let mut others = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let Some((name, value)) = pair.split_once('=') else {
                return Err(unusable(&format!("parameter {pair:?} has no value")));
            };
            let decoded = || {
                let text = percent_decode_str(value).decode_utf8();
                text.map(String::from).map_err(|_| unusable(&format!("parameter {name:?} is not text")))
            };
            match name {
                "sslmode" => security.mode = Some(decoded()?),
                "sslrootcert" => security.root = Some(PathBuf::from(decoded()?)),
                _ => others.push(pair),
            }
        }
        let separator = if others.is_empty() { "" } else { "?" };
        Ok((format!("{address}{separator}{}", others.join("&")), security))
    }

    /// The TLS mode and the trusted certificates. As in libpq, with one exception: a URL that requests a check must
    /// name the certificate.
    fn decide(self) -> Result<(SslMode, Trust)> {
        let mode = self.mode.as_deref().unwrap_or("prefer");
        match (mode, self.root) {
            ("disable", None) => Ok((SslMode::Disable, Trust::Anyone)),
            ("prefer", None) => Ok((SslMode::Prefer, Trust::Anyone)),
            ("require", None) => Ok((SslMode::Require, Trust::Anyone)),
            ("require" | "verify-ca", Some(root)) => Ok((SslMode::Require, Trust::SignedBy(root))),
            ("verify-full", Some(root)) => Ok((SslMode::Require, Trust::NamedAndSignedBy(root))),
            ("verify-ca" | "verify-full", None) => {
                Err(unusable(&format!("sslmode={mode} needs sslrootcert=FILE, the certificates to trust (PEM)")))
            }
            ("disable" | "prefer", Some(_)) => Err(unusable(&format!(
                "sslmode={mode} checks no certificate, so that sslrootcert would be ignored; use sslmode=verify-full"
            ))),
            _ => Err(unusable(&format!(
                "sslmode={mode} is unknown; use one of disable, prefer, require, verify-ca, verify-full"
            ))),
        }
    }
}

fn unusable(reason: &str) -> Error {
    Error::Unusable(format!("the database URL cannot be used: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        match Address::parse(url) {
            Ok(_) => panic!("{url} was accepted"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn an_address_is_read_whole() {
        let address = Address::parse("postgres://me:secret@db.example:6543/orders?sslmode=require").unwrap();
        assert_eq!(address.name(), "db.example:6543");
        assert_eq!(address.config.get_user(), Some("me"));
        assert_eq!(address.config.get_password(), Some(b"secret".as_slice()));
        assert_eq!(address.config.get_dbname(), Some("orders"));
        assert_eq!(address.config.get_ssl_mode(), SslMode::Require);
    }

    #[test]
    fn a_socket_and_several_hosts_are_addresses_too() {
        let socket = Address::parse("postgresql:///orders?host=/var/run/postgresql&port=5433").unwrap();
        assert_eq!(socket.name(), "/var/run/postgresql:5433");
        let several = Address::parse("postgres://a:1,b:2/orders?target_session_attrs=read-write").unwrap();
        assert_eq!(several.name(), "a:1,b:2");
    }

    #[test]
    fn what_is_unknown_is_refused() {
        for (url, reason) in [
            ("mysql://host/db", "postgres://"),
            ("postgres://host/db?sslmod=require", "unknown option `sslmod`"),
            ("postgres://host/db?sslmode=allow", "one of disable"),
            ("postgres://host/db?sslmode", "has no value"),
            ("postgres://host/db?sslmode=verify-full", "sslrootcert"),
            ("postgres://host/db?sslmode=prefer&sslrootcert=/ca.pem", "verify-full"),
            ("postgres://host/db?sslmode=verify-full&sslrootcert=/no/such/file", "/no/such/file"),
            ("postgres://host", "names no database"),
            ("postgres:///db", "names no host"),
        ] {
            let error = refused(url);
            assert!(error.contains(reason), "{url}: {error}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        for url in ["postgres://me:secret@host:x/db", "postgres://me:secret@host/db?nothing=1"] {
            assert!(!refused(url).contains("secret"));
        }
    }
}
