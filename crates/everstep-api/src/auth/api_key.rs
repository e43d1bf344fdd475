//! API keys as text, as clients send them.

use std::fmt;
use std::str::FromStr;

use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;
use everstep_store::KeyRow;
use sha2::{Digest, Sha256};

use crate::auth::Permission;
use crate::id;

const KEY_PREFIX: &str = "es_";
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// So many random letters and digits, of 62, contain 256 bits.
const KEY_LETTERS: usize = 43;

/// A key: `es_` and 256 random bits in letters and digits. It is shown once and not stored.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Creates a random key.
    ///
    /// # Panics
    /// If the operating system provides no randomness.
    pub fn generate() -> Self {
        let mut text = KEY_PREFIX.to_owned();
        let mut bytes = [0; 64];
        while text.len() < KEY_PREFIX.len() + KEY_LETTERS {
            getrandom::fill(&mut bytes).expect("the operating system provides random bytes");
            // 248 is four times 62: larger values would make some letters more likely than others.
            let even = bytes.iter().filter(|byte| **byte < 248);
            let letters = even.map(|byte| char::from(ALPHABET[usize::from(byte % 62)]));
            text.extend(letters.take(KEY_PREFIX.len() + KEY_LETTERS - text.len()));
        }
        Self(text)
    }

    /// The row of this key for the database.
    pub fn row(&self, workspace: WorkspaceId, name: &str, permissions: &[Permission], now: Timestamp) -> KeyRow {
        KeyRow {
            id: id::new_id(now),
            workspace,
            name: name.to_owned(),
            hash: self.hash(),
            permissions: permissions.iter().map(ToString::to_string).collect(),
            role: None,
            rate_limit: None,
            created_at: now,
            expires_at: None,
            revoked_at: None,
            maker: None,
        }
    }

    /// The hash by which the database identifies the key.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }

    /// The key itself, for its holder.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl FromStr for ApiKey {
    type Err = ApiKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let letters = text.strip_prefix(KEY_PREFIX).ok_or(ApiKeyError)?;
        let is_key = letters.len() == KEY_LETTERS && letters.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if is_key { Ok(Self(text.to_owned())) } else { Err(ApiKeyError) }
    }
}

/// The text does not have the form of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiKeyError;

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("es_…")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_long_random_and_read_back() {
        let (one, two) = (ApiKey::generate(), ApiKey::generate());
        assert_ne!(one, two);
        assert_eq!(one.reveal().len(), 46);
        assert_eq!(one.reveal().parse(), Ok(one.clone()));
        assert_eq!(one.hash(), one.clone().hash());
        assert_ne!(one.hash(), two.hash());
        assert_eq!(format!("{one:?}"), "es_…");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let long = format!("es_{}", "a".repeat(44));
        let odd = format!("es_{}-", "a".repeat(42));
        for text in ["", "es_", "es_short", &long, &odd, &"a".repeat(46)] {
            assert_eq!(text.parse::<ApiKey>(), Err(ApiKeyError), "{text}");
        }
    }
}
