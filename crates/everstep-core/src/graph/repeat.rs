//! A loop or scope in progress: which items are running, and which change is ready next.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::model::{Node, NodeKind};
use crate::failure::Failure;
use crate::payload::Payload;

/// A loop or scope in progress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Repeat {
    pub(crate) items: Vec<Payload>,
    pub(crate) next: u32,
    pub(crate) running: BTreeSet<u32>,
    /// In the order of items; `None` for null and for an item that has not ended.
    pub(crate) results: Vec<Option<Payload>>,
    /// Bytes of JSON in the results.
    pub(crate) bytes: usize,
    pub(crate) failed: Option<(u32, Failure)>,
    pub(crate) pace: Pacing,
}

/// Whether the next iteration may begin, for a loop that pauses between items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Pacing {
    /// A timer must be set.
    #[default]
    Unset,
    /// The timer is set.
    Waits,
    /// The timer has fired.
    May,
}

/// The next change of a loop or scope that is ready.
#[derive(Clone, Copy)]
pub(crate) enum Ready {
    Fail,
    Finish,
    Begin,
    SetPace,
}

impl Repeat {
    pub(crate) fn ready(&self, node: &Node) -> Option<Ready> {
        let (concurrency, paced) = match &node.kind {
            NodeKind::Loop(config) => (config.concurrency, !config.pace.is_zero()),
            _ => (1, false),
        };
        if self.failed.is_some() {
            return Some(Ready::Fail);
        }
        if (self.next as usize) < self.items.len() {
            if self.running.len() >= concurrency as usize {
                return None;
            }
            return match self.pace {
                Pacing::Unset if paced && self.next > 0 => Some(Ready::SetPace),
                Pacing::Waits => None,
                Pacing::Unset | Pacing::May => Some(Ready::Begin),
            };
        }
        self.running.is_empty().then_some(Ready::Finish)
    }
}
