//! The memory of the bodies of requests, which a node bounds.
//!
//! 1. The bodies that are being read or processed have at most `bytes_max` bytes together, and those of a key or a
//!    person a quarter of that. Workspaces share the bytes by the rules of `FairShare`.
//! 2. A body whose length is known reserves its bytes before it is read; another one reserves them as they arrive.
//! 3. A request that does not fit waits, and is rejected after `wait`.
//!
//! **Invariant:** every byte of a body that is kept is reserved.

use std::time::Duration;

use everstep_core::fair_share::ShareBounds;
use everstep_core::ids::WorkspaceId;
use everstep_handlers::{Place, Places};
use tokio::time::timeout;
use uuid::Uuid;

use crate::auth::Caller;
use crate::http::problem::Problem;

/// A key has one part in this many.
const KEY_DIVISOR: u64 = 4;
/// The header `Retry-After` of a rejected request, in seconds.
const RETRY_AFTER_SECONDS: u32 = 5;

/// The bounds of reading bodies.
#[derive(Clone, Copy, Debug)]
pub struct BodyOptions {
    /// Bytes of all bodies of this node.
    pub bytes_max: u64,
    /// How long a body waits for memory.
    pub wait: Duration,
    /// The time after which a body must have arrived at the minimum rate.
    pub grace: Duration,
}

impl Default for BodyOptions {
    fn default() -> Self {
        Self { bytes_max: 256 * 1024 * 1024, wait: Duration::from_secs(5), grace: Duration::from_secs(5) }
    }
}

/// The memory of the bodies of a node.
pub struct BodyMemory {
    options: BodyOptions,
    /// The bytes, by workspace, and by key or person.
    bytes: Places<Uuid>,
}

/// Bytes that are reserved for a body. Dropping it frees them.
pub(crate) struct BodyPermit {
    wait: Duration,
    bytes: Places<Uuid>,
    workspace: WorkspaceId,
    key: Uuid,
    reserved: Vec<Place<Uuid>>,
}

impl BodyMemory {
    pub fn new(options: BodyOptions) -> Self {
        let places = options.bytes_max;
        let bounds = ShareBounds { key_max: places / KEY_DIVISOR, ..ShareBounds::new(places) };
        Self { options, bytes: Places::new(bounds) }
    }

    pub(crate) fn options(&self) -> BodyOptions {
        self.options
    }

    /// A permit for no bytes yet. Requests without authentication share the part of one key.
    pub(crate) fn permit(&self, caller: Option<&Caller>) -> BodyPermit {
        match caller {
            Some(caller) => self.permit_of(caller.workspace, caller.number()),
            None => self.permit_of(WorkspaceId::from_uuid(Uuid::max()), Uuid::max()),
        }
    }

    fn permit_of(&self, workspace: WorkspaceId, key: Uuid) -> BodyPermit {
        BodyPermit { wait: self.options.wait, bytes: self.bytes.clone(), workspace, key, reserved: Vec::new() }
    }
}

impl BodyPermit {
    /// The number of reserved bytes.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = self.reserved.iter().map(Place::amount).sum::<u64>();
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Reserves bytes up to this number. Waits until they fit.
    pub(crate) async fn grow_to(&mut self, bytes: usize) -> Result<(), Problem> {
        let more = bytes.saturating_sub(self.bytes()) as u64;
        if more == 0 {
            return Ok(());
        }
        match timeout(self.wait, self.bytes.acquire(self.workspace, self.key, more)).await {
            Ok(Some(place)) => {
                self.reserved.push(place);
                Ok(())
            }
            Ok(None) | Err(_) => Err(no_room(bytes)),
        }
    }
}

fn no_room(bytes: usize) -> Problem {
    let detail =
        format!("the server has no memory for a body of {bytes} bytes now: other requests use their share of it");
    let hint = "send fewer large requests at the same time, or raise EVERSTEP_BODY_MEMORY_MIB on the server";
    Problem::unavailable(detail).hint(hint).retry_after(RETRY_AFTER_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn take(memory: &BodyMemory, key: u128, workspace: u128, bytes: usize) -> Option<BodyPermit> {
        let workspace = WorkspaceId::from_uuid(Uuid::from_u128(workspace));
        let mut permit = memory.permit_of(workspace, Uuid::from_u128(key));
        permit.grow_to(bytes).await.ok().map(|()| permit)
    }

    #[tokio::test]
    async fn a_key_has_a_quarter_and_a_workspace_leaves_room_for_others() {
        let options = BodyOptions { bytes_max: 1_600, wait: Duration::from_millis(20), ..BodyOptions::default() };
        let memory = BodyMemory::new(options);
        drop(take(&memory, 9, 2, 1).await);
        let mut held = Vec::new();
        for key in 0..3 {
            let mut permit = take(&memory, key, 1, 300).await.unwrap();
            assert!(permit.grow_to(400).await.is_ok() && permit.grow_to(401).await.is_err(), "a key has a quarter");
            held.push(permit);
        }
        assert!(take(&memory, 3, 1, 1).await.is_none(), "the last quarter is for other workspaces");
        assert!(take(&memory, 4, 2, 300).await.is_some());
        drop(held);
        assert_eq!(memory.bytes.used(), 0);
    }
}
