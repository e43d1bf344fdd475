//! The addresses that may be reached.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use crate::address;

/// The environment variable that allows private addresses.
pub const ALLOW_ADDRESSES_VARIABLE: &str = "EVERSTEP_ALLOW_ADDRESSES";

/// The addresses that may be reached: all public ones, and those that a setting allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// Networks that may be reached although they are private.
    pub allow: Vec<IpNet>,
    /// Whether every address may be reached: on a developer's own machine.
    pub allow_all: bool,
}

impl Guard {
    /// Every address may be reached.
    pub fn open() -> Self {
        Self { allow: Vec::new(), allow_all: true }
    }

    /// Whether an address may be reached.
    pub fn permits(&self, address: IpAddr) -> bool {
        if self.allow_all {
            return true;
        }
        let forms = address::forms(address);
        // Packets to an address that embeds another one arrive at the embedded one.
        let is_allowed = |form: &IpAddr| self.allow.iter().any(|net| net.contains(form));
        forms.iter().all(|form| address::is_public(*form) || is_allowed(form))
    }
}

/// A text that is not a list of addresses and networks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address or a network; write for example 10.0.0.0/8, 127.0.0.1 or all")]
pub struct AllowListError(String);

impl FromStr for Guard {
    type Err = AllowListError;

    /// Reads `10.0.0.0/8, 127.0.0.1` or `all`.
    fn from_str(text: &str) -> Result<Self, AllowListError> {
        let mut guard = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            if word == "all" {
                guard.allow_all = true;
                continue;
            }
            let net = word.parse::<IpNet>().or_else(|_| word.parse::<IpAddr>().map(IpNet::from));
            guard.allow.push(net.map_err(|_| AllowListError(word.to_owned()))?);
        }
        Ok(guard)
    }
}
