//! Why a request has no response.

use std::time::Duration;

use crate::guard::ALLOW_ADDRESSES_VARIABLE;

/// Why a request has no response. Messages contain the host, never the rest of an address: it may contain a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(
        "{host} resolves to a private address (loopback, private or reserved), which is blocked; allow it with \
         {ALLOW_ADDRESSES_VARIABLE}"
    )]
    Refused { host: String },
    #[error("{0}")]
    Invalid(String),
    #[error("the name {0} cannot be resolved; check its spelling and the name servers")]
    Unresolved(String),
    #[error("no connection to {host}: {reason}")]
    Unreachable { host: String, reason: String },
    #[error("no response within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    #[error("the response has more than {0} bytes")]
    TooLarge(usize),
    #[error("{0}")]
    Redirect(String),
    #[error("the connection to {host} was lost during the exchange: {reason}")]
    Broken { host: String, reason: String },
}

impl Error {
    /// Whether a retry may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unresolved(_) | Self::Unreachable { .. } | Self::Timeout(_) | Self::Broken { .. } => true,
            Self::Refused { .. } | Self::Invalid(_) | Self::TooLarge(_) | Self::Redirect(_) => false,
        }
    }
}
