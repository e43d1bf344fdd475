//! The id of a worker's session.

use std::fmt;
use std::str::FromStr;

use everstep_core::ids::NodeId;
use uuid::Uuid;

/// Characters of a session's secret that may be shown.
const SHOWN_CHARS: usize = 8;

/// The id of a session: its node, and 128 secret bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    pub node: NodeId,
    pub secret: Uuid,
}

impl SessionId {
    /// The part that may be shown to clients other than its worker.
    pub fn shown(&self) -> String {
        let mut text = self.secret.simple().to_string();
        text.truncate(SHOWN_CHARS);
        text
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({}…)", self.shown())
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.node.uuid().simple(), self.secret.simple())
    }
}

impl FromStr for SessionId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || "this is not the id of a session: use the one from the welcome of the server".to_owned();
        let (node, secret) = text.split_once('.').ok_or_else(malformed)?;
        let node = node.parse::<Uuid>().map_err(|_| malformed())?;
        let secret = secret.parse::<Uuid>().map_err(|_| malformed())?;
        Ok(Self { node: NodeId::from_uuid(node), secret })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_of_a_session_is_not_shown() {
        let secret = Uuid::from_u128(u128::MAX / 7);
        let text = format!("{:?}", SessionId { node: NodeId::from_uuid(Uuid::nil()), secret });
        assert!(text.contains(&secret.simple().to_string()[..SHOWN_CHARS]));
        assert!(text.len() < 32, "{text}");
    }
}
