//! The maximum number of followers: a stream uses memory and queries the database.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::http::StatusCode;
use uuid::Uuid;

use crate::http::problem::Problem;

/// The maximum numbers of streams, and the intervals of their heartbeats and pings. A stream is an SSE response, a
/// socket, a Socket.IO connection, or a run that a connection has joined. A Socket.IO client that does not answer a ping within
/// `pong_timeout` is disconnected.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    pub per_node: usize,
    pub per_key: usize,
    pub heartbeat: Duration,
    pub ping_interval: Duration,
    pub pong_timeout: Duration,
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            per_node: 2_000,
            per_key: 200,
            heartbeat: Duration::from_secs(15),
            ping_interval: Duration::from_secs(25),
            pong_timeout: Duration::from_secs(20),
        }
    }
}

/// Unauthenticated streams use at most one slot in this many, so that they do not block authenticated ones.
const UNAUTHENTICATED_SLOTS_DIVISOR: usize = 4;

pub(crate) struct Slots {
    streams: Streams,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    /// The slots of streams that are not yet authenticated, which are part of all.
    unauthenticated: usize,
    by_key: HashMap<Uuid, usize>,
}

/// A stream's slot. Dropping it frees the slot.
pub(crate) struct Slot {
    slots: Arc<Slots>,
    key: Option<Uuid>,
}

impl Slots {
    pub(crate) fn new(streams: Streams) -> Self {
        Self { streams, taken: Mutex::default() }
    }

    /// Takes a slot for the holder of a key, or for a stream that is not yet authenticated.
    pub(crate) fn take_slot(self: &Arc<Self>, key: Option<Uuid>) -> Result<Slot, Problem> {
        let mut taken = self.taken();
        if taken.all >= self.streams.per_node {
            let detail = format!("this node serves {} streams, which is its maximum", self.streams.per_node);
            let hint = "use another node, or raise EVERSTEP_MAX_STREAMS";
            return Err(Problem::unavailable(detail).hint(hint));
        }
        match key {
            Some(key) => self.count(&mut taken, key)?,
            None if taken.unauthenticated >= (self.streams.per_node / UNAUTHENTICATED_SLOTS_DIVISOR).max(1) => {
                let detail = "the maximum number of connections is waiting for authentication";
                return Err(Problem::unavailable(detail).hint("try again, or raise EVERSTEP_MAX_STREAMS"));
            }
            None => taken.unauthenticated += 1,
        }
        taken.all += 1;
        Ok(Slot { slots: Arc::clone(self), key })
    }

    fn count(&self, taken: &mut Taken, key: Uuid) -> Result<(), Problem> {
        let by_key = taken.by_key.entry(key).or_default();
        if *by_key >= self.streams.per_key {
            let detail = format!("this API key has {} open streams, which is its maximum", self.streams.per_key);
            let hint = "close some, or raise EVERSTEP_MAX_STREAMS_PER_KEY";
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "TOO_MANY_STREAMS", detail);
            return Err(problem.hint(hint).retry_after(5));
        }
        *by_key += 1;
        Ok(())
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().expect("no holder of the lock panics")
    }
}

impl Slot {
    /// Counts the slot for a key that was sent later.
    pub(crate) fn name(&mut self, key: Uuid) -> Result<(), Problem> {
        let mut taken = self.slots.taken();
        self.slots.count(&mut taken, key)?;
        taken.unauthenticated -= usize::from(self.key.is_none());
        self.key = Some(key);
        Ok(())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken();
        taken.all -= 1;
        let Some(key) = self.key else {
            taken.unauthenticated -= 1;
            return;
        };
        if let Some(by_key) = taken.by_key.get_mut(&key) {
            *by_key -= 1;
            if *by_key == 0 {
                taken.by_key.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_given_out_and_come_back() {
        let slots = Arc::new(Slots::new(Streams { per_node: 3, per_key: 2, ..Streams::default() }));
        let (one, two) = (Some(Uuid::from_u128(1)), Some(Uuid::from_u128(2)));
        let held =
            [slots.take_slot(one).unwrap_or_else(|_| panic!()), slots.take_slot(one).unwrap_or_else(|_| panic!())];
        assert!(slots.take_slot(one).is_err(), "a key has its own limit");
        let other = slots.take_slot(two);
        assert!(other.is_ok());
        assert!(slots.take_slot(None).is_err(), "the node is full");
        drop(held);
        assert!(slots.take_slot(one).is_ok());
        assert!(slots.taken().by_key.keys().eq([&Uuid::from_u128(2)]), "no state of closed streams remains");
    }

    #[test]
    fn unauthenticated_streams_leave_room_for_authenticated_ones() {
        let slots = Arc::new(Slots::new(Streams { per_node: 8, per_key: 8, ..Streams::default() }));
        let take = |key| slots.take_slot(key).ok();
        let (mut one, two) = (take(None).unwrap(), take(None));
        assert!(two.is_some() && take(None).is_none(), "a quarter of the slots is for unauthenticated streams");
        assert!(take(Some(Uuid::from_u128(1))).is_some());
        one.name(Uuid::from_u128(1)).unwrap_or_else(|_| panic!());
        assert!(take(None).is_some(), "a stream with a key is authenticated");
        drop((one, two));
        let taken = slots.taken();
        assert_eq!((taken.all, taken.unauthenticated), (0, 0));
    }
}
