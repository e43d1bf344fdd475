//! Ids. Each is a separate type, so that one cannot be used in place of another.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::time::Timestamp;

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Creates a time-ordered id (UUID v7) from a time and 80 random bits.
            pub fn new(now: Timestamp, random: u128) -> Self {
                let bytes = random.to_be_bytes();
                let mut tail = [0; 10];
                tail.copy_from_slice(&bytes[6..]);
                Self(uuid::Builder::from_unix_timestamp_millis(now.millis().max(0).cast_unsigned(), &tail).into_uuid())
            }

            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            pub const fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    };
}

uuid_id! {
    /// One execution of one workflow version.
    RunId
}
uuid_id! {
    /// A server process, from its start to its end. Never reused.
    NodeId
}
uuid_id! {
    /// A published event.
    EventId
}
uuid_id! {
    /// A subscription of a topic.
    SubscriptionId
}
uuid_id! {
    /// A side effect of a state machine. The same for all its attempts and requeues.
    DeliveryId
}
uuid_id! {
    /// A dead letter.
    DeadLetterId
}
uuid_id! {
    /// An uploaded file.
    FileId
}
uuid_id! {
    /// A tenant.
    WorkspaceId
}
uuid_id! {
    /// One proposed item. It distinguishes a resent item from the item of another node.
    CommitId
}

impl WorkspaceId {
    /// The workspace of a single-user installation.
    pub const DEFAULT: Self = Self(Uuid::from_u128(1));
}

/// A step's name within a run: `fetch`, or `each[3].fetch` inside an iteration.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepKey(Arc<str>);

impl StepKey {
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of its graph node: `fetch` of `each[3].fetch`.
    pub fn node_name(&self) -> &str {
        self.0.rsplit_once('.').map_or(&self.0, |(_, node)| node)
    }
}

impl fmt::Display for StepKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for StepKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl From<&str> for StepKey {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for StepKey {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl Borrow<str> for StepKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}
