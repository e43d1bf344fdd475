//! The maximum number of followers: a stream uses memory and queries the database.
//!
//! 1. The streams of callers are bounded per node, per workspace and per key or person. Workspaces share the slots of the
//!    node by [`FairShare`], so that those with many streams leave slots for the others.
//! 2. Connections that are not yet authenticated have a part of the slots, and one address has half of that part. They
//!    take no slot from callers: a stream whose request carries a key or a ticket needs only rule 1.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::http::StatusCode;
use everstep_core::fair_share::{FairShare, ShareBounds};
use everstep_core::ids::WorkspaceId;
use uuid::Uuid;

use crate::auth::Caller;
use crate::http::problem::Problem;

/// The maximum numbers of streams, and the intervals of their heartbeats and pings. A stream is an SSE response, a
/// socket, a Socket.IO connection, or a run that a connection has joined. A Socket.IO client that does not answer a ping within
/// `pong_timeout` is disconnected.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    pub per_node: usize,
    pub per_workspace: usize,
    pub per_key: usize,
    pub heartbeat: Duration,
    pub ping_interval: Duration,
    pub pong_timeout: Duration,
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            per_node: 2_000,
            per_workspace: 1_000,
            per_key: 200,
            heartbeat: Duration::from_secs(15),
            ping_interval: Duration::from_secs(25),
            pong_timeout: Duration::from_secs(20),
        }
    }
}

impl Streams {
    /// Streams of a node, half of which a workspace may have.
    pub fn shared(per_node: usize, per_key: usize) -> Self {
        Self { per_node, per_workspace: per_node.div_ceil(2), per_key, ..Self::default() }
    }
}

/// Unauthenticated streams use at most one slot in this many.
const UNAUTHENTICATED_SLOTS_DIVISOR: usize = 4;
/// The unauthenticated streams of one address use at most one of these slots in this many. A proxy is one address.
const ADDRESS_SLOTS_DIVISOR: usize = 2;

pub(crate) struct Slots {
    streams: Streams,
    taken: Mutex<Taken>,
}

struct Taken {
    /// The slots of callers, by workspace. No request waits for a slot.
    authenticated: FairShare<(), ()>,
    /// The slots of streams that are not yet authenticated.
    unauthenticated: usize,
    by_key: HashMap<Uuid, usize>,
    by_address: HashMap<IpAddr, usize>,
}

/// The holder of a slot.
#[derive(Clone, Copy, Debug)]
enum SlotHolder {
    Caller {
        key: Uuid,
        workspace: WorkspaceId,
    },
    /// A client that is not yet authenticated, by its address.
    Stranger(Option<IpAddr>),
}

/// A stream's slot. Dropping it frees the slot.
pub(crate) struct Slot {
    slots: Arc<Slots>,
    holder: SlotHolder,
}

impl Slots {
    pub(crate) fn new(streams: Streams) -> Self {
        let workspace_max = streams.per_workspace as u64;
        let bounds = ShareBounds { workspace_max, ..ShareBounds::new(streams.per_node as u64) };
        let taken = Taken {
            authenticated: FairShare::new(bounds),
            unauthenticated: 0,
            by_key: HashMap::new(),
            by_address: HashMap::new(),
        };
        Self { streams, taken: Mutex::new(taken) }
    }

    /// Takes a slot for a caller.
    pub(crate) fn take_slot(self: &Arc<Self>, caller: &Caller) -> Result<Slot, Problem> {
        self.take_for(caller.number(), caller.workspace)
    }

    fn take_for(self: &Arc<Self>, key: Uuid, workspace: WorkspaceId) -> Result<Slot, Problem> {
        self.count(&mut self.taken(), key, workspace)?;
        Ok(Slot { slots: Arc::clone(self), holder: SlotHolder::Caller { key, workspace } })
    }

    /// Takes a slot for a stream that is not yet authenticated.
    pub(crate) fn take_unauthenticated(self: &Arc<Self>, address: Option<IpAddr>) -> Result<Slot, Problem> {
        let mut taken = self.taken();
        if taken.authenticated.used() + taken.unauthenticated as u64 >= self.streams.per_node as u64 {
            return Err(self.full());
        }
        let strangers_max = (self.streams.per_node / UNAUTHENTICATED_SLOTS_DIVISOR).max(1);
        let by_address = address.and_then(|address| taken.by_address.get(&address)).copied().unwrap_or_default();
        if taken.unauthenticated >= strangers_max || by_address >= (strangers_max / ADDRESS_SLOTS_DIVISOR).max(1) {
            let detail = "the maximum number of connections is waiting for authentication";
            let hint =
                "try again; send the key or the ticket with the upgrade, in a header; or raise EVERSTEP_MAX_STREAMS";
            return Err(Problem::unavailable(detail).hint(hint));
        }
        taken.unauthenticated += 1;
        if let Some(address) = address {
            *taken.by_address.entry(address).or_default() += 1;
        }
        Ok(Slot { slots: Arc::clone(self), holder: SlotHolder::Stranger(address) })
    }

    fn full(&self) -> Problem {
        let detail = format!("this node serves {} streams, which is its maximum", self.streams.per_node);
        Problem::unavailable(detail).hint("use another node, or raise EVERSTEP_MAX_STREAMS")
    }

    fn count(&self, taken: &mut Taken, key: Uuid, workspace: WorkspaceId) -> Result<(), Problem> {
        let too_many = |detail: String, hint: &str| {
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "TOO_MANY_STREAMS", detail);
            Err(problem.hint(hint).retry_after(5))
        };
        if taken.authenticated.used() >= self.streams.per_node as u64 {
            return Err(self.full());
        }
        if taken.by_key.get(&key).is_some_and(|count| *count >= self.streams.per_key) {
            let detail = format!("this API key has {} open streams, which is its maximum", self.streams.per_key);
            return too_many(detail, "close some, or raise EVERSTEP_MAX_STREAMS_PER_KEY");
        }
        let used = taken.authenticated.used_by(workspace);
        if used >= self.streams.per_workspace as u64 {
            let detail = format!(
                "this workspace has {} open streams, half of those of this node, which is its maximum",
                self.streams.per_workspace
            );
            return too_many(detail, "close some, use another node, or raise EVERSTEP_MAX_STREAMS");
        }
        if !taken.authenticated.try_take(workspace, &(), 1) {
            let detail = format!(
                "this workspace has {used} open streams, and the remaining slots of this node are for workspaces with \
                 fewer"
            );
            return too_many(detail, "close some, use another node, or raise EVERSTEP_MAX_STREAMS");
        }
        *taken.by_key.entry(key).or_default() += 1;
        Ok(())
    }

    /// The streams of a workspace at this node, and how many it may have.
    pub(crate) fn use_of(&self, workspace: WorkspaceId) -> (usize, usize) {
        (
            usize::try_from(self.taken().authenticated.used_by(workspace)).unwrap_or(usize::MAX),
            self.streams.per_workspace,
        )
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().expect("no holder of the lock panics")
    }
}

impl Taken {
    fn free(&mut self, holder: SlotHolder) {
        match holder {
            SlotHolder::Caller { key, workspace } => {
                self.authenticated.release(workspace, &(), 1);
                subtract(&mut self.by_key, &key);
            }
            SlotHolder::Stranger(address) => {
                self.unauthenticated -= 1;
                if let Some(address) = address {
                    subtract(&mut self.by_address, &address);
                }
            }
        }
    }
}

fn subtract<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

impl Slot {
    /// Counts the slot for a caller whose key was sent later.
    pub(crate) fn name(&mut self, caller: &Caller) -> Result<(), Problem> {
        self.name_for(caller.number(), caller.workspace)
    }

    fn name_for(&mut self, key: Uuid, workspace: WorkspaceId) -> Result<(), Problem> {
        let mut taken = self.slots.taken();
        if let SlotHolder::Caller { .. } = self.holder {
            return Ok(());
        }
        self.slots.count(&mut taken, key, workspace)?;
        taken.free(self.holder);
        self.holder = SlotHolder::Caller { key, workspace };
        Ok(())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.taken().free(self.holder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u128) -> (Uuid, WorkspaceId) {
        (Uuid::from_u128(number), WorkspaceId::from_uuid(Uuid::from_u128(number)))
    }

    fn take(slots: &Arc<Slots>, (key, workspace): (Uuid, WorkspaceId)) -> Option<Slot> {
        slots.take_for(key, workspace).ok()
    }

    #[test]
    fn places_are_given_out_and_come_back() {
        let slots = Arc::new(Slots::new(Streams { per_node: 3, per_key: 2, ..Streams::default() }));
        let held = [take(&slots, key(1)).unwrap(), take(&slots, key(1)).unwrap()];
        assert!(take(&slots, key(1)).is_none(), "a key has its own limit");
        let other = take(&slots, key(2));
        assert!(other.is_some());
        assert!(take(&slots, key(3)).is_none() && slots.take_unauthenticated(None).is_err(), "the node is full");
        drop(held);
        assert!(take(&slots, key(1)).is_some());
        assert!(slots.taken().by_key.keys().eq([&Uuid::from_u128(2)]), "no state of closed streams remains");
        assert_eq!(slots.taken().authenticated.used(), 1);
    }

    #[test]
    fn a_workspace_has_half_of_the_slots() {
        let slots = Arc::new(Slots::new(Streams::shared(8, 2)));
        let (_, workspace) = key(1);
        let of_key = |number: u128| take(&slots, (Uuid::from_u128(number), workspace));
        let held: Vec<_> = [1, 1, 2, 3].map(of_key).into_iter().flatten().collect();
        assert_eq!((held.len(), slots.use_of(workspace)), (4, (4, 4)));
        assert!(of_key(4).is_none(), "a workspace has its own limit, however many keys it has");
        assert!(take(&slots, key(2)).is_some());
    }

    #[test]
    fn two_workspaces_do_not_fill_a_node() {
        let slots = Arc::new(Slots::new(Streams::shared(16, 16)));
        let take_all = |number: u128| -> Vec<_> { (0..16).map_while(|_| take(&slots, key(number))).collect() };
        let of_first = take_all(1);
        assert_eq!(of_first.len(), 8, "half of the node");
        let of_second = take_all(2);
        assert_eq!(of_second.len(), 4, "the last quarter is for workspaces with few streams");
        assert!(take(&slots, key(3)).is_some());
        assert!(take(&slots, key(2)).is_none(), "it still has many");
    }

    #[test]
    fn unauthenticated_streams_take_no_slot_of_callers() {
        let slots = Arc::new(Slots::new(Streams { per_node: 16, per_key: 16, ..Streams::default() }));
        let (here, there) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let open = |address| slots.take_unauthenticated(Some(address)).ok();
        let mut of_here = [open(here).unwrap(), open(here).unwrap()];
        assert!(open(here).is_none(), "one address has half of the unauthenticated slots");
        let of_there = [open(there), open(there)];
        assert!(of_there.iter().all(Option::is_some) && slots.take_unauthenticated(None).is_err());
        // All slots of callers are free, and a stream with a key is a caller's.
        let callers: Vec<_> = (0..15).filter_map(|_| take(&slots, key(1))).collect();
        assert_eq!(callers.len(), 15);
        let (id, workspace) = key(1);
        assert!(of_here[0].name_for(id, workspace).is_ok() && of_here[1].name_for(id, workspace).is_err());
        drop((of_here, of_there, callers));
        let taken = slots.taken();
        assert_eq!((taken.authenticated.used(), taken.unauthenticated), (0, 0));
        assert!(taken.by_address.is_empty() && taken.by_key.is_empty());
    }
}
