//! Who may write: joining, leases, fencing, and giving runs back.

use std::time::Duration;

use everstep_core::ids::NodeId;
use everstep_core::planted::{self, Bug};
use everstep_core::time::Timestamp;
use rusqlite::{Connection, named_params};

use super::database::Database;
use super::queries::query;
use super::rows;
use crate::error::{Error, Result};
use crate::rows::NodeRow;
use crate::{numbers, texts};

impl Database {
    pub fn join(&mut self, node: NodeId, lease: Duration, address: Option<&str>) -> Result<Timestamp> {
        texts::check(address)?;
        let clock = self.now();
        if planted::is_planted(Bug::RestartKeepsId) && renew(&self.connection, node, clock.plus(lease))? {
            return Ok(clock);
        }
        let mut statement = self.connection.prepare_cached(query!("join"))?;
        statement.execute(named_params! {
            ":node": node.uuid().into_bytes(),
            ":lease_until": clock.plus(lease).micros(),
            ":address": address,
        })?;
        Ok(clock)
    }

    pub fn nodes(&self) -> Result<Vec<NodeRow>> {
        read_nodes(&self.connection, self.now())
    }

    pub fn fence(&mut self, node: NodeId, seen: Timestamp) -> Result<bool> {
        let mut statement = self.connection.prepare_cached(query!("fence"))?;
        let fenced = statement.execute(named_params! {
            ":node": node.uuid().into_bytes(),
            ":seen": seen.micros(),
            ":clock": self.now().micros(),
        })?;
        if fenced == 1 && planted::is_planted(Bug::ReleaseStopsHalfWay) {
            release(&self.connection, self.now(), 1)?;
        }
        Ok(fenced == 1)
    }

    pub fn leave(&mut self, node: NodeId, now: Timestamp) -> Result<()> {
        let tx = self.begin()?;
        let node = node.uuid().into_bytes();
        tx.prepare_cached(query!("leave/1_fence"))?.execute(named_params! { ":node": node })?;
        tx.prepare_cached(query!("leave/2_release"))?.execute(named_params! { ":node": node, ":now": now.micros() })?;
        Ok(tx.commit()?)
    }

    pub fn release_runs(&mut self, now: Timestamp, limit: usize) -> Result<usize> {
        release(&self.connection, now, limit)
    }

    /// Fences every node and makes all their runs claimable at `now`. Returns how many.
    ///
    /// For a process that has just opened the database and is alone in it: whatever is owned has no living owner.
    pub fn release_all(&mut self, now: Timestamp) -> Result<usize> {
        let tx = self.begin()?;
        let fenced = tx.prepare_cached(query!("release_all/1_fence"))?.execute([])?;
        let released =
            tx.prepare_cached(query!("release_all/2_release"))?.execute(named_params! { ":now": now.micros() })?;
        tx.commit()?;
        // A node that left in order is fenced already. One that did not has not added all its counts.
        if fenced > 0 {
            self.recount()?;
        }
        Ok(released)
    }
}

/// All nodes, as they are when the database's clock shows `clock`.
pub(super) fn read_nodes(connection: &Connection, clock: Timestamp) -> Result<Vec<NodeRow>> {
    let mut statement = connection.prepare_cached(query!("nodes"))?;
    let nodes = statement.query_map(named_params! { ":clock": clock.micros() }, rows::node)?;
    Ok(nodes.collect::<rusqlite::Result<_>>()?)
}

/// Extends a lease. Returns false when the node is fenced or unknown.
pub(super) fn renew(connection: &Connection, node: NodeId, lease_until: Timestamp) -> Result<bool> {
    let mut statement = connection.prepare_cached(query!("tick/1_renew"))?;
    let renewed = statement.execute(named_params! {
        ":node": node.uuid().into_bytes(),
        ":lease_until": lease_until.micros(),
    })?;
    Ok(renewed == 1)
}

pub(super) fn release(connection: &Connection, now: Timestamp, limit: usize) -> Result<usize> {
    let mut statement = connection.prepare_cached(query!("release_runs"))?;
    Ok(statement.execute(named_params! { ":now": now.micros(), ":limit": numbers::limit(limit) })?)
}

/// Refuses a node that has not joined or is fenced.
pub(super) fn check_member(connection: &Connection, node: NodeId) -> Result<()> {
    let mut statement = connection.prepare_cached(query!("commit/1_member"))?;
    let is_member = statement.exists(named_params! { ":node": node.uuid().into_bytes() })?;
    if is_member || planted::is_planted(Bug::FenceNotChecked) { Ok(()) } else { Err(Error::Fenced(node)) }
}
