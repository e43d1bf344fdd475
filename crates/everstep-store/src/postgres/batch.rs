//! A batch of items as the parameters of one statement.

use std::collections::BTreeMap;

use everstep_core::event::FORMAT;
use everstep_core::ids::{NodeId, StepKey};
use uuid::Uuid;

use super::arrays::{self, Bare, Closed, Entries, Heads, Letters, Projections, Starts, Taken, Waits};
use super::queries::{Param, Query, param, query};
use crate::error::Result;
use crate::item::{Change, Gate, Item, Wait};
use crate::pack::Packed;

/// The arrays of `commit/all.sql` and `commit/steps.sql`.
#[derive(Debug, Default)]
pub(super) struct Batch<'a> {
    node: Uuid,
    format: i32,
    /// Runs that nobody may own, and that are locked.
    unowned: Vec<Uuid>,
    starts: Starts<'a>,
    heads: Heads<'a>,
    entries: Entries<'a>,
    projections: Projections<'a>,
    bare: Bare<'a>,
    closed: Closed<'a>,
    waits: Waits<'a>,
    taken: Taken<'a>,
    letters: Letters<'a>,
    /// Where the messages of an item begin, by the item's place.
    letter_places: Vec<(usize, usize)>,
    /// Whether there is more than entries of runs that the node owns.
    has_more: bool,
}

impl<'a> Batch<'a> {
    /// Gathers the items at some places, in the order of their locks: starts by what must be unique about them,
    /// the others by run. So two batches never wait for each other.
    pub(super) fn of(node: NodeId, items: &'a [Packed<'_>], places: impl Iterator<Item = usize>) -> Result<Self> {
        let mut batch = Self { node: node.uuid(), format: arrays::small(FORMAT)?, ..Self::default() };
        let mut places: Vec<_> = places.collect();
        places.sort_by_cached_key(|place| order(&items[*place].item));
        for place in places {
            batch.push(place, &items[place])?;
        }
        Ok(batch)
    }

    fn push(&mut self, place: usize, packed: &'a Packed<'_>) -> Result<()> {
        let item = &*packed.item;
        self.has_more |= !is_plain(item);
        match &item.gate {
            Gate::Start(run) => {
                self.starts.push(item, run)?;
                for entry in 0..item.entries.len() {
                    self.entries.push(packed, entry)?;
                }
            }
            Gate::Owned => self.push_gated(packed, false)?,
            Gate::Unowned => {
                self.unowned.push(item.run.uuid());
                self.push_gated(packed, true)?;
            }
        }
        self.push_waits(item);
        for taken in &item.taken {
            self.taken.push(item, *taken);
        }
        if !item.messages.is_empty() {
            self.letter_places.push((place, self.letters.len()));
        }
        for message in &item.messages {
            self.letters.push(item, message);
        }
        Ok(())
    }

    /// Adds the entries and the row of a run that exists.
    fn push_gated(&mut self, packed: &'a Packed<'_>, is_unowned: bool) -> Result<()> {
        let item = &*packed.item;
        if !item.entries.is_empty() {
            self.heads.push(packed, is_unowned)?;
            for entry in 1..item.entries.len() {
                self.entries.push(packed, entry)?;
            }
        }
        match &item.projection {
            Some(projection) => self.projections.push(item, projection, is_unowned),
            None if item.entries.is_empty() => self.bare.push(item, is_unowned),
            None => {}
        }
        Ok(())
    }

    /// Adds what is left of an item's changes when they have happened in their order: what closes, then what opens.
    fn push_waits(&mut self, item: &'a Item) {
        if item.projection.as_ref().is_some_and(|projection| projection.ended_at.is_some()) {
            self.closed.push(item, None);
            return;
        }
        let mut open: BTreeMap<&StepKey, &Wait> = BTreeMap::new();
        for change in &item.waits {
            match change {
                Change::Open(wait) => {
                    if let Some(twice) = open.insert(&wait.step, wait) {
                        // Written twice, so that the database refuses it.
                        self.waits.push(item, twice);
                    }
                }
                Change::Close(step) => {
                    open.remove(step);
                    self.closed.push(item, Some(step));
                }
            }
        }
        for wait in open.into_values() {
            self.waits.push(item, wait);
        }
    }

    /// Where the messages of the item at `place` begin.
    pub(super) fn first_letter(&self, place: usize) -> Option<usize> {
        self.letter_places.iter().find(|(item, _)| *item == place).map(|(_, letter)| *letter)
    }

    pub(super) fn letters(&self) -> usize {
        self.letters.len()
    }

    /// The statement that writes it, and its parameters in their order there.
    pub(super) fn statement(&self) -> (&'static Query, Vec<Param<'_>>) {
        let mut params = vec![param("node", &self.node)];
        if !self.has_more {
            params.extend(self.heads.params());
            params.extend(self.entries.params());
            return (query!("commit/steps"), params);
        }
        params.extend(self.taken.params());
        params.push(param("format", &self.format));
        params.extend(self.starts.params());
        params.push(param("unowned", &self.unowned));
        params.extend(self.heads.params());
        params.extend(self.projections.params());
        params.extend(self.bare.params());
        params.extend(self.entries.params());
        params.extend(self.closed.params());
        params.extend(self.waits.params());
        params.extend(self.letters.params());
        (query!("commit/all"), params)
    }
}

/// Whether an item is nothing but entries of a run that the node owns.
fn is_plain(item: &Item) -> bool {
    let is_owned = matches!(item.gate, Gate::Owned) && !item.entries.is_empty();
    is_owned && item.projection.is_none() && item.waits.is_empty() && item.taken.is_empty() && item.messages.is_empty()
}

/// The place of an item among its batch's locks. Starts with one key keep their order: the first wins.
fn order(item: &Item) -> (Uuid, Option<(String, String)>, Uuid) {
    let key = match &item.gate {
        Gate::Start(run) => run.key.clone(),
        Gate::Owned | Gate::Unowned => None,
    };
    match key {
        Some(key) => (item.workspace.uuid(), Some(key), Uuid::nil()),
        None => (Uuid::nil(), None, item.run.uuid()),
    }
}
