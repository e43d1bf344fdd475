//! The secret that all nodes of a cluster share.

use std::fmt;
use std::sync::Arc;

use everstep_store::AccessStore;

/// The name of the setting in the database.
const KEY_SETTING: &str = "cluster-key";
const KEY_CHARS_MIN: usize = 32;

/// The key with which requests between nodes are signed.
#[derive(Clone)]
pub struct ClusterKey(Arc<[u8]>);

impl ClusterKey {
    /// A key that an operator has chosen.
    pub fn new(text: &str) -> Result<Self, String> {
        match text.trim().len() {
            length if length < KEY_CHARS_MIN => Err(format!(
                "the cluster key has {length} characters; at least {KEY_CHARS_MIN} are required; create one: openssl rand -hex 32"
            )),
            _ => Ok(Self(text.trim().as_bytes().into())),
        }
    }

    /// The key that the nodes of a database share. The first node creates it.
    pub async fn from_store(store: &dyn AccessStore) -> everstep_store::Result<Self> {
        let mut random = [0; 32];
        getrandom::fill(&mut random).expect("the operating system provides random bytes");
        let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self(store.setting(KEY_SETTING, text.as_bytes()).await?.into()))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_key_is_refused() {
        assert!(ClusterKey::new(&"k".repeat(31)).unwrap_err().contains("at least 32"));
        assert!(ClusterKey::new(&format!(" {} ", "k".repeat(31))).is_err());
        assert_eq!(format!("{:?}", ClusterKey::new(&"k".repeat(32)).unwrap()), "ClusterKey(…)");
    }
}
