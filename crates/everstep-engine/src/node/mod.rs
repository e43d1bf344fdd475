//! This process as a member of the cluster.
//!
//! * `member` joins the database under a new id and starts all loops; `rejoin` does so again after a fence.
//! * `claim` takes ownership of due runs; `permits` bounds the number of runs that a node owns.
//! * `tick` is the heartbeat of nodes that share a database; `sightings` decides which of the others are fenced.
//! * `clock` is the time that entries are stamped with; `peers` is the port to other nodes.

pub(crate) mod claim;
pub(crate) mod clock;
pub(crate) mod member;
pub(crate) mod peers;
pub(crate) mod permits;
pub(crate) mod rejoin;
mod sightings;
mod tick;
