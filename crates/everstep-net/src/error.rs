//! Why nothing came back.

use std::time::Duration;

use crate::guard::ALLOW_ADDRESSES_VARIABLE;

/// Why a request got no answer. Messages name the host, never the rest of an address: it may hold a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(
        "{host} lies inside (a loopback, private or reserved address) and is refused; {ALLOW_ADDRESSES_VARIABLE} allows it"
    )]
    Refused { host: String },
    #[error("{0}")]
    Invalid(String),
    #[error("{0} is not known to the name servers")]
    Unresolved(String),
    #[error("no connection to {host}: {reason}")]
    Unreachable { host: String, reason: String },
    #[error("no answer within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    #[error("the answer has more than {0} bytes")]
    TooLarge(usize),
    #[error("{0}")]
    Redirect(String),
    #[error("the exchange with {host} broke off: {reason}")]
    Broken { host: String, reason: String },
}

impl Error {
    /// Whether it may go away by itself.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unresolved(_) | Self::Unreachable { .. } | Self::Timeout(_) | Self::Broken { .. } => true,
            Self::Refused { .. } | Self::Invalid(_) | Self::TooLarge(_) | Self::Redirect(_) => false,
        }
    }
}
