//! A key to be created.

use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;
use everstep_store::KeyRow;

use crate::auth::{ApiKey, Permission, Role};

/// Characters of a key's name.
pub(crate) const NAME_CHARS_MAX: usize = 128;
/// The highest rate limit of a key, in requests per second.
const RATE_LIMIT_MAX: u32 = 1_000_000;

/// The name and the permissions of a key.
#[derive(Clone, Debug)]
pub struct NewKey {
    pub name: String,
    pub allows: Grant,
    pub expires_at: Option<Timestamp>,
    /// Requests per second; 0 for no limit. The default is the server's limit.
    pub rate_limit: Option<u32>,
}

/// The permissions of a key: a role, or a list of permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    Role(Role),
    Permissions(Vec<Permission>),
}

impl Grant {
    /// Reads a request that contains exactly one of the two.
    pub fn from_request(role: Option<Role>, permissions: Option<Vec<Permission>>) -> Result<Self, String> {
        match (role, permissions) {
            (Some(role), None) => Ok(Self::Role(role)),
            (None, Some(mut permissions)) if !permissions.is_empty() => {
                permissions.sort_unstable();
                permissions.dedup();
                Ok(Self::Permissions(permissions))
            }
            (None, _) => Err("an API key needs a role, or permissions".to_owned()),
            (Some(_), Some(_)) => Err("an API key has either a role or permissions, not both".to_owned()),
        }
    }

    pub fn permissions(&self) -> &[Permission] {
        match self {
            Self::Role(role) => role.permissions(),
            Self::Permissions(permissions) => permissions,
        }
    }
}

impl NewKey {
    /// The error in a new key.
    pub fn check(&self, now: Timestamp) -> Result<(), String> {
        let length = self.name.chars().count();
        if length == 0 || length > NAME_CHARS_MAX || self.name.chars().any(char::is_control) {
            return Err(format!("the name of an API key has 1 to {NAME_CHARS_MAX} characters, without invisible ones"));
        }
        if self.expires_at.is_some_and(|end| end <= now) {
            return Err("expiresAt must be in the future".to_owned());
        }
        if self.rate_limit.is_some_and(|limit| limit > RATE_LIMIT_MAX) {
            return Err(format!("a rate limit is at most {RATE_LIMIT_MAX} requests per second, or 0 for no limit"));
        }
        Ok(())
    }

    /// The row of this key for the database.
    pub fn row(&self, secret: &ApiKey, workspace: WorkspaceId, now: Timestamp) -> KeyRow {
        let role = match &self.allows {
            Grant::Role(role) => Some(role.to_string()),
            Grant::Permissions(_) => None,
        };
        KeyRow {
            role,
            rate_limit: self.rate_limit,
            expires_at: self.expires_at,
            ..secret.row(workspace, &self.name, self.allows.permissions(), now)
        }
    }
}
