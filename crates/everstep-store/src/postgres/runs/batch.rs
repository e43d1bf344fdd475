//! A batch of items as the parameters of one statement.

use std::collections::BTreeMap;

use everstep_core::ids::{NodeId, StepKey};
use everstep_core::journal::FORMAT;
use uuid::Uuid;

use super::arrays::{Bare, Closed, Entries, Heads, Letters, Projections, Starts, Taken, Waits};
use crate::error::Result;
use crate::item::{Change, Gate, Item, Wait};
use crate::numbers;
use crate::pack::Packed;
use crate::postgres::queries::{Param, Query, param, query};

/// The arrays of `commit/all.sql`, and what of that statement they need.
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
    /// What most of it any item needs.
    needs: Needs,
}

/// Which statement an item can be written by. Each does what those before it do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Needs {
    /// `commit/steps.sql`: entries of runs that the node owns.
    #[default]
    Steps,
    /// `commit/runs.sql`: runs that start, park and end.
    Runs,
    /// `commit/all.sql`.
    All,
}

impl<'a> Batch<'a> {
    /// Gathers the items at some places, in the order of their locks: starts by what must be unique about them,
    /// the others by run. So two batches never wait for each other.
    pub(super) fn of(node: NodeId, items: &'a [Packed<'_>], places: impl Iterator<Item = usize>) -> Result<Self> {
        let mut batch = Self { node: node.uuid(), format: numbers::checked_integer(FORMAT)?, ..Self::default() };
        let mut places: Vec<_> = places.collect();
        places.sort_by_cached_key(|place| order(&items[*place].item));
        for place in places {
            batch.push(place, &items[place])?;
        }
        Ok(batch)
    }

    fn push(&mut self, place: usize, packed: &'a Packed<'_>) -> Result<()> {
        let item = &*packed.item;
        self.needs = self.needs.max(needs(item));
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
        let statement = match self.needs {
            Needs::Steps => query!("commit/steps"),
            Needs::Runs => query!("commit/runs"),
            Needs::All => query!("commit/all"),
        };
        let mut params = vec![param("node", &self.node)];
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
        params.retain(|(name, ..)| statement.takes(name));
        (statement, params)
    }
}

fn needs(item: &Item) -> Needs {
    let opens = item.waits.iter().any(|change| matches!(change, Change::Open(_)));
    let is_bare = item.entries.is_empty() && item.projection.is_none();
    let is_unowned = matches!(item.gate, Gate::Unowned);
    if opens || is_bare || is_unowned || !item.taken.is_empty() || !item.messages.is_empty() {
        return Needs::All;
    }
    let is_start = matches!(item.gate, Gate::Start(_));
    if is_start || item.projection.is_some() || !item.waits.is_empty() { Needs::Runs } else { Needs::Steps }
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
