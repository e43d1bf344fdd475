//! The usual sets of permissions.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::auth::Permission;

/// A usual set of permissions. A key has a role, or a list of permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads definitions and runs.
    Viewer,
    /// A viewer who also starts and controls runs.
    Operator,
    /// An operator who also saves definitions.
    Publisher,
    /// Everything.
    Admin,
    /// Performs steps, and nothing else.
    Worker,
}

impl Role {
    pub const ALL: &[Self] = &[Self::Viewer, Self::Operator, Self::Publisher, Self::Admin, Self::Worker];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Publisher => "publisher",
            Self::Admin => "admin",
            Self::Worker => "worker",
        }
    }

    /// The permissions of a key with this role.
    pub fn permissions(self) -> &'static [Permission] {
        use Permission::{Act, Manage, Publish, Read, Serve, View};
        match self {
            Self::Viewer => &[Read, View],
            Self::Operator => &[Read, View, Act, Manage],
            Self::Publisher => &[Read, View, Act, Manage, Publish],
            Self::Admin => Permission::ALL,
            Self::Worker => &[Serve],
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.iter().copied().find(|role| role.as_str() == text).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|role| role.as_str()).collect();
            format!("unknown role {text:?}; use one of {}", known.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_is_allowed_what_the_one_before_it_is() {
        for role in Role::ALL {
            assert_eq!(role.to_string().parse(), Ok(*role));
        }
        for pair in [Role::Viewer, Role::Operator, Role::Publisher, Role::Admin].windows(2) {
            let (less, more) = (pair[0].permissions(), pair[1].permissions());
            assert!(less.len() < more.len() && less.iter().all(|permission| more.contains(permission)), "{pair:?}");
        }
        assert_eq!(Role::Worker.permissions(), [Permission::Serve]);
        assert_eq!(Role::Admin.permissions(), Permission::ALL);
        assert!("root".parse::<Role>().unwrap_err().contains("viewer, operator, publisher, admin, worker"));
    }
}
