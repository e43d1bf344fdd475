//! The tick: the periodic work of a node on the database, once a second.

use std::time::Duration;

use everstep_core::ids::NodeId;
use everstep_core::planted::{self, Bug};
use everstep_core::time::Timestamp;
use rusqlite::named_params;

use super::claims::Claim;
use super::{nodes, reads};
use crate::error::{Error, Result};
use crate::rows::{Tick, TickRequest, first_event_of};
use crate::sqlite::database::Database;
use crate::sqlite::queries::query;

impl Database {
    pub fn tick(&mut self, node: NodeId, lease: Duration, now: Timestamp, request: &TickRequest) -> Result<Tick> {
        let clock = self.now();
        let tx = self.begin()?;
        if !nodes::renew(&tx, node, clock.plus(lease))? {
            return Err(Error::Fenced(node));
        }
        // All parts see the database as it was when the tick began: the next tick claims the runs that this one
        // releases.
        let arrivals = reads::read_inbox(&tx, node, None, request.inbox)?;
        let (mut claimed, mut rotation) = (Vec::new(), request.rotation);
        for (lane, room) in &request.lanes {
            let result = Claim { tx: &tx, node, lane, now }.claim(*room, rotation)?;
            claimed.extend(result.runs);
            rotation = result.rotation;
        }
        let release_max = if planted::is_planted(Bug::ReleaseStopsHalfWay) { 0 } else { request.release };
        let released = nodes::release(&tx, now, release_max)?;
        let nodes = nodes::read_nodes(&tx, clock)?;
        let has_open_events = tx
            .prepare_cached(query!("tick/3_open_events"))?
            .query_row(named_params! { ":stalled": first_event_of(now).into_bytes() }, |row| row.get(0))?;
        tx.commit()?;
        Ok(Tick { clock, nodes, released, claimed, rotation, arrivals, has_open_events })
    }
}
