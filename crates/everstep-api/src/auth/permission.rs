//! The permissions of API keys.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Permission {
    /// Read definitions of workflows, and records and links.
    #[serde(rename = "workflow:read")]
    Read,
    /// Read runs, with their data and journals; read events and subscriptions.
    #[serde(rename = "workflow:view")]
    View,
    /// Act in runs of state machines that concern the caller. `workflow:manage` implies it.
    #[serde(rename = "workflow:act")]
    Act,
    /// Start, signal, pause, resume, retry and cancel runs; write records and links; publish events.
    #[serde(rename = "workflow:manage")]
    Manage,
    /// Save definitions of workflows, and subscriptions.
    #[serde(rename = "workflow:publish")]
    Publish,
    /// Everything, for workflows, nodes and keys.
    #[serde(rename = "workflow:admin")]
    Admin,
    /// Perform steps for runs of workflows written as code.
    #[serde(rename = "worker:serve")]
    Serve,
}

impl Permission {
    pub const ALL: &[Self] =
        &[Self::Read, Self::View, Self::Act, Self::Manage, Self::Publish, Self::Admin, Self::Serve];

    /// Whether a holder of this permission has `other`, too.
    pub fn implies(self, other: Self) -> bool {
        self == other || self == Self::Admin || (self == Self::Manage && other == Self::Act)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "workflow:read",
            Self::View => "workflow:view",
            Self::Act => "workflow:act",
            Self::Manage => "workflow:manage",
            Self::Publish => "workflow:publish",
            Self::Admin => "workflow:admin",
            Self::Serve => "worker:serve",
        }
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Permission {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.iter().copied().find(|permission| permission.as_str() == text).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|permission| permission.as_str()).collect();
            format!("unknown permission {text:?}; use one of {}", known.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_read_as_they_are_written() {
        for permission in Permission::ALL {
            assert_eq!(permission.to_string().parse(), Ok(*permission));
            assert_eq!(serde_json::to_value(permission).unwrap(), permission.as_str());
        }
        for permission in Permission::ALL {
            assert!(Permission::Admin.implies(*permission) && permission.implies(*permission));
            assert_eq!(
                permission.implies(Permission::Act),
                [Permission::Act, Permission::Manage, Permission::Admin].contains(permission)
            );
        }
        let error = "workflow:write".parse::<Permission>().unwrap_err();
        assert!(error.contains("workflow:write") && error.contains("workflow:manage"), "{error}");
    }
}
