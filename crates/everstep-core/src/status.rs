//! The statuses of runs and steps, and which status may follow which.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

macro_rules! statuses {
    ($(#[$doc:meta])* $type:ident { $($name:ident = $text:literal => [$($next:ident),*],)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub enum $type {
            $($name,)*
        }

        impl $type {
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// The statuses that may follow this one.
            pub fn next(self) -> &'static [Self] {
                match self {
                    $(Self::$name => &[$(Self::$next,)*],)*
                }
            }

            pub fn may_become(self, next: Self) -> bool {
                self.next().contains(&next)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok(Self::$name),)*
                    _ => Err(format!(
                        "unknown status {text:?}; use one of {}",
                        Self::ALL.iter().map(|status| status.as_str()).collect::<Vec<_>>().join(", ")
                    )),
                }
            }
        }
    };
}

statuses! {
    /// The status of a run.
    Status {
        Pending = "pending" => [Running, Paused, Completed, Failed, Cancelled],
        Running = "running" => [Waiting, Paused, Completed, Failed, Cancelled],
        Waiting = "waiting" => [Running, Paused, Completed, Failed, Cancelled],
        Paused = "paused" => [Pending, Running, Failed, Cancelled],
        Completed = "completed" => [],
        Failed = "failed" => [Running],
        Cancelled = "cancelled" => [],
    }
}

statuses! {
    /// The status of a step of a run.
    StepStatus {
        Pending = "pending" => [Running, Skipped, Cancelled],
        Running = "running" => [Waiting, Completed, Failed, Cancelled],
        Waiting = "waiting" => [Running, Completed, Failed, Cancelled],
        Completed = "completed" => [],
        Failed = "failed" => [Running],
        Skipped = "skipped" => [],
        Cancelled = "cancelled" => [],
    }
}

impl Status {
    /// Ended runs do not change, except that a failed one may be retried.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}
