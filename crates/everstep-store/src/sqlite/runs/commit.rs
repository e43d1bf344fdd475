//! The commit: many items in one transaction, each all or nothing.

use everstep_core::ids::NodeId;

use super::batch::{Batch, Stop};
use super::nodes;
use crate::error::Result;
use crate::item::{Gate, Item, Outcome};
use crate::pack::Packed;
use crate::sqlite::database::Database;
use crate::texts;

impl Database {
    pub fn commit(&mut self, node: NodeId, items: &[Item]) -> Result<Vec<Outcome>> {
        let packed: Vec<_> = items.iter().map(Packed::of).collect();
        self.commit_packed(node, &packed)
    }

    /// Writes a batch. An item that turns out to clash with a stored row only after its head was written
    /// takes the whole transaction with it; the batch is then written again without it.
    ///
    /// That is rare, and spares every other item a savepoint.
    pub(super) fn commit_packed(&mut self, node: NodeId, items: &[Packed<'_>]) -> Result<Vec<Outcome>> {
        items.iter().try_for_each(|packed| texts::check_item(&packed.item))?;
        let mut clashed = vec![false; items.len()];
        loop {
            match self.write_all(node, items, &clashed) {
                Ok(outcomes) => return Ok(outcomes),
                Err(Stop::Clash(place)) => clashed[place] = true,
                Err(Stop::Error(error)) => return Err(error),
            }
        }
    }

    /// 1. The node is a member, or nothing happens.
    /// 2. The runs that start get their rows.
    /// 3. Each item's head is written, or the item is refused.
    /// 4. The rest of an item follows its head.
    fn write_all(
        &self,
        node: NodeId,
        items: &[Packed<'_>],
        clashed: &[bool],
    ) -> std::result::Result<Vec<Outcome>, Stop> {
        let tx = self.begin()?;
        nodes::check_member(&tx, node)?;
        let outcomes = {
            let mut batch = Batch::new(&tx, node, self)?;
            let mut refused = vec![None; items.len()];
            for (place, packed) in items.iter().enumerate() {
                if clashed[place] {
                    refused[place] = Some(Outcome::Conflict);
                } else if let Gate::Start(run) = &packed.item.gate {
                    refused[place] = batch.start(&packed.item, run).map_err(|stop| stop.at(place))?;
                }
            }
            let mut outcomes = Vec::with_capacity(items.len());
            for (place, (packed, refused)) in items.iter().zip(refused).enumerate() {
                outcomes.push(match refused {
                    Some(outcome) => outcome,
                    None => batch.write(packed).map_err(|stop| stop.at(place))?,
                });
            }
            outcomes
        };
        tx.commit()?;
        Ok(outcomes)
    }
}
