//! API keys, workspaces and the audit.

use everstep_core::actor::{self, Actor};
use everstep_core::ids::WorkspaceId;
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Error, Result};

/// An API key. Only its hash is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyRow {
    pub id: Uuid,
    pub workspace: WorkspaceId,
    pub name: String,
    /// SHA-256 of the key.
    pub hash: [u8; 32],
    /// Words without spaces.
    pub permissions: Vec<String>,
    /// The name of a set of permissions.
    pub role: Option<String>,
    /// The maximum number of requests per second.
    pub rate_limit: Option<u32>,
    pub created_at: Timestamp,
    /// When it expires. The store also finds expired keys.
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    /// The key that made the one-time link by which this key was created; none for other keys.
    pub maker: Option<Uuid>,
}

impl KeyRow {
    /// The permissions as they are stored: words with spaces between them.
    pub(crate) fn permission_text(&self) -> Result<String> {
        match self.permissions.iter().find(|word| word.is_empty() || word.contains(char::is_whitespace)) {
            Some(word) => Err(Error::Refused(format!("a permission is one word, not {word:?}"))),
            None => Ok(self.permissions.join(" ")),
        }
    }

    /// Whether its revocation at this time has made room for another key.
    pub(crate) fn has_made_room(&self, revoked_at: Timestamp) -> bool {
        self.revoked_at == Some(revoked_at)
            && self.maker.is_none()
            && self.expires_at.is_none_or(|end| end > revoked_at)
    }
}

/// The result of adding a key within a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOutcome {
    Added,
    /// The workspace has this number of keys: nothing was written.
    QuotaReached(u64),
}

/// A tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkspaceRow {
    pub id: WorkspaceId,
    pub name: String,
    /// Its additional rights, a JSON object: `{"fetch": true}`.
    pub options: Payload,
    pub created_at: Timestamp,
}

/// An action of a caller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditRow {
    /// UUID v7 of the millisecond of `at`: the order of the list.
    pub id: Uuid,
    pub workspace: WorkspaceId,
    pub at: Timestamp,
    /// A person is named by the issuer and the id: `https://login.example.com/ann`.
    #[serde(with = "actor::as_text")]
    pub actor: Actor,
    pub action: String,
    pub target: String,
    pub details: Payload,
}

impl AuditRow {
    /// The texts that a database must be able to store.
    pub(crate) fn texts(&self) -> [&str; 3] {
        [&self.actor.id, &self.action, &self.target]
    }

    /// Its size in bytes, roughly.
    pub(crate) fn size(&self) -> usize {
        const ROW_OVERHEAD_BYTES: usize = 64;
        ROW_OVERHEAD_BYTES + self.texts().iter().map(|text| text.len()).sum::<usize>() + self.details.size()
    }
}

/// The conditions that listed rows of the audit meet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditFilter {
    pub actor: Option<Actor>,
    pub action: Option<String>,
    /// Done at this time or later.
    pub since: Option<Timestamp>,
    /// Done before this time.
    pub until: Option<Timestamp>,
}

impl AuditFilter {
    /// The range of ids of a page: from the first, up to before the second.
    pub(crate) fn ids(&self, before: Option<Uuid>) -> (Uuid, Uuid) {
        let from = self.since.map_or(Uuid::nil(), first_id);
        let until = self.until.map_or(Uuid::max(), |until| {
            // Rows of this millisecond may have been written before `until`.
            first_id(Timestamp::from_millis(until.millis().saturating_add(1)))
        });
        (from, before.map_or(until, |before| before.min(until)))
    }
}

/// The smallest id of the millisecond of a time.
pub(crate) fn first_id(time: Timestamp) -> Uuid {
    let millis = u128::try_from(time.millis()).unwrap_or_default().min((1 << 48) - 1);
    Uuid::from_u128(millis << 80)
}
