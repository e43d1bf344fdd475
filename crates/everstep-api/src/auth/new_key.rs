//! A key that is to be made.

use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;
use everstep_store::KeyRow;

use crate::auth::{Permission, Role, Secret};

/// Characters of a key's name.
const NAME: usize = 128;
/// Requests per second; more is no limit.
const RATE: u32 = 1_000_000;

/// What a key is to be called, and what it may do.
#[derive(Clone, Debug)]
pub struct NewKey {
    pub name: String,
    pub allows: Allows,
    pub expires_at: Option<Timestamp>,
    /// Requests per second; 0 for any number. Without one the server's usual limit holds.
    pub rate_limit: Option<u32>,
}

/// A key has a role, or permissions of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allows {
    Role(Role),
    Permissions(Vec<Permission>),
}

impl Allows {
    /// Reads a request that names one of both.
    pub fn of(role: Option<Role>, permissions: Option<Vec<Permission>>) -> Result<Self, String> {
        match (role, permissions) {
            (Some(role), None) => Ok(Self::Role(role)),
            (None, Some(mut permissions)) if !permissions.is_empty() => {
                permissions.sort_unstable();
                permissions.dedup();
                Ok(Self::Permissions(permissions))
            }
            (None, _) => Err("a key needs a role, or permissions".to_owned()),
            (Some(_), Some(_)) => Err("a key has a role or permissions, not both".to_owned()),
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
    /// What is wrong with it.
    pub fn check(&self, now: Timestamp) -> Result<(), String> {
        let length = self.name.chars().count();
        if length == 0 || length > NAME || self.name.chars().any(char::is_control) {
            return Err(format!("the name of a key has 1 to {NAME} characters, and none that cannot be seen"));
        }
        if self.expires_at.is_some_and(|end| end <= now) {
            return Err("a key expires in the future".to_owned());
        }
        if self.rate_limit.is_some_and(|limit| limit > RATE) {
            return Err(format!("a limit is at most {RATE} requests per second, or 0 for none"));
        }
        Ok(())
    }

    /// What the database is to know of it.
    pub fn row(&self, secret: &Secret, workspace: WorkspaceId, now: Timestamp) -> KeyRow {
        let role = match &self.allows {
            Allows::Role(role) => Some(role.to_string()),
            Allows::Permissions(_) => None,
        };
        KeyRow {
            role,
            rate_limit: self.rate_limit,
            expires_at: self.expires_at,
            ..secret.row(workspace, &self.name, self.allows.permissions(), now)
        }
    }
}
