//! The tick: what a node asks of the database once a second.

use std::time::Duration;

use everstep_core::ids::NodeId;
use everstep_core::time::Timestamp;
use rusqlite::named_params;

use super::database::Database;
use super::queries::query;
use super::{nodes, runs};
use crate::error::{Error, Result};
use crate::rows::{Tick, Wants};

impl Database {
    pub fn tick(&mut self, node: NodeId, lease: Duration, now: Timestamp, wants: &Wants) -> Result<Tick> {
        let clock = self.now();
        let tx = self.begin()?;
        let renewed = tx.prepare_cached(query!("tick/1_renew"))?.execute(named_params! {
            ":node": node.uuid().into_bytes(),
            ":lease_until": clock.plus(lease).micros(),
        })?;
        if renewed == 0 {
            return Err(Error::Fenced(node));
        }
        // All parts see the moment at which the tick began: what it releases is read and claimed by the next.
        let arrivals = runs::read_inbox(&tx, node, None, wants.inbox)?;
        let mut claimed = Vec::new();
        for (lane, room) in &wants.lanes {
            claimed.extend(runs::claim(&tx, node, lane, now, *room)?);
        }
        let released = nodes::release(&tx, now, wants.release)?;
        let nodes = nodes::read_nodes(&tx, clock)?;
        tx.commit()?;
        Ok(Tick { clock, nodes, released, claimed, arrivals })
    }
}
