//! Membership of nodes: joining, leases, fencing, and releasing runs.

use std::time::Duration;

use everstep_core::ids::NodeId;
use everstep_core::planted::{self, Bug};
use everstep_core::time::Timestamp;
use rusqlite::{Connection, named_params};

use super::rows;
use crate::error::{Error, Result};
use crate::rows::NodeRow;
use crate::sqlite::database::Database;
use crate::sqlite::queries::query;
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

    /// Fences every node and makes all their runs claimable at `now`. Returns the number of runs.
    ///
    /// For a process that has just opened the database and is its only user: no owner of a run is alive.
    pub fn release_all(&mut self, now: Timestamp) -> Result<usize> {
        let tx = self.begin()?;
        let fenced = tx.prepare_cached(query!("release_all/1_fence"))?.execute([])?;
        let released =
            tx.prepare_cached(query!("release_all/2_release"))?.execute(named_params! { ":now": now.micros() })?;
        tx.commit()?;
        // A node that shut down in order is already fenced. Any other node has not added all its counts.
        if fenced > 0 {
            self.recount()?;
        }
        Ok(released)
    }
}

impl Database {
    /// Releases the runs of ended processes, if the disk was full when the folder was opened.
    pub(crate) fn release_if_missed(&mut self) -> Result<()> {
        if self.must_release {
            self.release_all(self.now())?;
            // The nodes may have been fenced before the disk was full.
            self.recount()?;
            self.must_release = false;
        }
        Ok(())
    }
}

/// All nodes, by the time `clock` of the database.
pub(super) fn read_nodes(connection: &Connection, clock: Timestamp) -> Result<Vec<NodeRow>> {
    let mut statement = connection.prepare_cached(query!("nodes"))?;
    let nodes = statement.query_map(named_params! { ":clock": clock.micros() }, rows::node_from_row)?;
    Ok(nodes.collect::<rusqlite::Result<_>>()?)
}

/// Extends a lease. Returns false if the node is fenced or unknown.
pub(super) fn renew(connection: &Connection, node: NodeId, lease_until: Timestamp) -> Result<bool> {
    let mut statement = connection.prepare_cached(query!("tick/1_renew"))?;
    let renewed = statement.execute(named_params! {
        ":node": node.uuid().into_bytes(),
        ":lease_until": lease_until.micros(),
    })?;
    Ok(renewed == 1)
}

/// Makes at most `limit` runs of fenced owners claimable at `now`. Returns their number.
pub(super) fn release(connection: &Connection, now: Timestamp, limit: usize) -> Result<usize> {
    let mut statement = connection.prepare_cached(query!("tick/2_release"))?;
    Ok(statement.execute(named_params! { ":now": now.micros(), ":limit": numbers::clamp_limit(limit) })?)
}

/// Fails with [`Error::Fenced`] if a node has not joined or is fenced.
pub(super) fn check_member(connection: &Connection, node: NodeId) -> Result<()> {
    let mut statement = connection.prepare_cached(query!("commit/1_member"))?;
    let is_member = statement.exists(named_params! { ":node": node.uuid().into_bytes() })?;
    if is_member || planted::is_planted(Bug::FenceNotChecked) { Ok(()) } else { Err(Error::Fenced(node)) }
}
