//! Who may call, for which workspace, and what they did.

use everstep_core::ids::WorkspaceId;
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use uuid::Uuid;

use crate::error::{Error, Result};

/// An API key. The key itself is known to its holder alone.
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
    /// How many requests it may make in a second.
    pub rate_limit: Option<u32>,
    pub created_at: Timestamp,
    /// From then on it is of no use. The store finds it all the same.
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

impl KeyRow {
    /// The permissions as they are stored: words with spaces between them.
    pub(crate) fn permission_text(&self) -> Result<String> {
        match self.permissions.iter().find(|word| word.is_empty() || word.contains(char::is_whitespace)) {
            Some(word) => Err(Error::Refused(format!("a permission is one word, not {word:?}"))),
            None => Ok(self.permissions.join(" ")),
        }
    }
}

/// A tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkspaceRow {
    pub id: WorkspaceId,
    pub name: String,
    /// What it is allowed beyond the usual, a JSON object: `{"fetch": true}`.
    pub options: Payload,
    pub created_at: Timestamp,
}

/// What somebody did.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditRow {
    /// UUID v7 of the millisecond of `at`: the order of the list.
    pub id: Uuid,
    pub workspace: WorkspaceId,
    pub at: Timestamp,
    pub actor: String,
    pub action: String,
    pub target: String,
    pub details: Payload,
}

/// Which rows of the audit a list shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditFilter {
    pub actor: Option<String>,
    pub action: Option<String>,
    /// Done at this time or later.
    pub since: Option<Timestamp>,
    /// Done before this time.
    pub until: Option<Timestamp>,
}

impl AuditFilter {
    /// The ids between which the rows of a page stand: from the first, up to before the second.
    pub(crate) fn ids(&self, before: Option<Uuid>) -> (Uuid, Uuid) {
        let from = self.since.map_or(Uuid::nil(), first_id);
        let until = self.until.map_or(Uuid::max(), |until| {
            // Rows of that very millisecond may have been written before it was over.
            first_id(Timestamp::from_millis(until.millis().saturating_add(1)))
        });
        (from, before.map_or(until, |before| before.min(until)))
    }
}

/// The first id that can be made in the millisecond of a time.
pub(crate) fn first_id(time: Timestamp) -> Uuid {
    let millis = u128::try_from(time.millis()).unwrap_or_default().min((1 << 48) - 1);
    Uuid::from_u128(millis << 80)
}
