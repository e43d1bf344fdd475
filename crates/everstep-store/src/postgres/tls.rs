//! TLS: the certificates that a connection to a database trusts.

use std::path::{Path, PathBuf};

use everstep_net::tls::{self, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{Error, Result};

/// The certificates that a server may present.
#[derive(Debug)]
pub(super) enum Trust {
    /// Any certificate: protects against eavesdropping, not against an active attacker.
    Anyone,
    /// A certificate that one of the certificates in this file has signed.
    SignedBy(PathBuf),
    /// A certificate that one of the certificates in this file has signed and that names the host.
    NamedAndSignedBy(PathBuf),
}

pub(super) fn connector(trust: Trust) -> Result<MakeRustlsConnect> {
    let trust = match trust {
        Trust::Anyone => tls::Trust::Anyone,
        Trust::SignedBy(file) => tls::Trust::SignedBy(roots(&file)?),
        Trust::NamedAndSignedBy(file) => tls::Trust::NamedAndSignedBy(roots(&file)?),
    };
    let config = tls::config(trust).map_err(|error| Error::Unusable(error.to_string()))?;
    Ok(MakeRustlsConnect::new(config))
}

fn roots(file: &Path) -> Result<RootCertStore> {
    let unreadable = |error: &dyn std::fmt::Display| {
        Error::Unusable(format!("sslrootcert {} cannot be used: {error}", file.display()))
    };
    let pem = std::fs::read(file).map_err(|error| unreadable(&error))?;
    tls::roots(&pem).map_err(|error| unreadable(&error))
}
