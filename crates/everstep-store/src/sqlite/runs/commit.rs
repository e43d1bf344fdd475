//! The commit: many items in one transaction, each all or nothing.

use everstep_core::ids::NodeId;
use everstep_core::planted::{self, Bug};

use super::batch::{Batch, Stop};
use super::nodes;
use crate::error::Result;
use crate::item::{CommitOutcome, Gate, Item};
use crate::pack::Packed;
use crate::sqlite::database::Database;
use crate::sqlite::dead_letters;
use crate::texts;

impl Database {
    pub fn commit(&mut self, node: NodeId, items: &[Item]) -> Result<Vec<CommitOutcome>> {
        let packed: Vec<_> = items.iter().map(Packed::borrow).collect();
        self.commit_packed(node, &packed)
    }

    /// Writes a batch. If an item clashes with a stored row after its head was written, the whole transaction is rolled
    /// back, and the batch is written again without that item.
    ///
    /// This is rare, and saves every other item a savepoint.
    pub(super) fn commit_packed(&mut self, node: NodeId, items: &[Packed<'_>]) -> Result<Vec<CommitOutcome>> {
        items.iter().try_for_each(|packed| texts::check_item(packed.item))?;
        if planted::is_planted(Bug::LetterBesideItsItem) {
            for letter in items.iter().flat_map(|packed| &packed.item.side).flat_map(|side| &side.dead_letters) {
                dead_letters::insert(&self.connection, letter)?;
            }
        }
        let mut clashed = vec![false; items.len()];
        loop {
            match self.write_all(node, items, &clashed) {
                Ok(outcomes) => return Ok(outcomes),
                Err(Stop::Clash(index)) => clashed[index] = true,
                Err(Stop::Error(error)) => return Err(error),
            }
        }
    }

    /// 1. If the node is not a member, nothing is written.
    /// 2. The rows of new runs are inserted.
    /// 3. Each item's head is written, or the item is rejected.
    /// 4. The rest of an item follows its head.
    fn write_all(
        &self,
        node: NodeId,
        items: &[Packed<'_>],
        clashed: &[bool],
    ) -> std::result::Result<Vec<CommitOutcome>, Stop> {
        let tx = self.begin()?;
        nodes::check_member(&tx, node)?;
        let outcomes = {
            let mut batch = Batch::new(&tx, node, self)?;
            let mut refused = vec![None; items.len()];
            for (index, packed) in items.iter().enumerate() {
                if clashed[index] {
                    refused[index] = Some(CommitOutcome::Conflict);
                } else if let Gate::Start(run) = &packed.item.gate {
                    refused[index] = batch.start(packed.item, run).map_err(|stop| stop.at_index(index))?;
                }
            }
            let mut outcomes = Vec::with_capacity(items.len());
            for (index, (packed, refused)) in items.iter().zip(refused).enumerate() {
                let outcome = match refused {
                    Some(outcome) => outcome,
                    None => batch.write(packed).map_err(|stop| stop.at_index(index))?,
                };
                if planted::is_planted(Bug::SideWritesWithoutItem)
                    && let Some(side) = &packed.item.side
                {
                    batch.write_side(side)?;
                }
                outcomes.push(outcome);
            }
            outcomes
        };
        tx.commit()?;
        Ok(outcomes)
    }
}
