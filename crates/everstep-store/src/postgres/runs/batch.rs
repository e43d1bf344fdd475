//! A batch of items as the parameters of one statement.

use std::collections::BTreeMap;

use everstep_core::ids::{NodeId, StepKey};
use uuid::Uuid;

use super::arrays::{
    AuditRows, Audited, Bare, BoundFiles, Closed, Entries, Heads, InboxInputs, Projections, Published, Starts, Taken,
    Waits,
};
use crate::error::Result;
use crate::item::{Gate, Item, SideWrites, Wait, WaitChange};
use crate::pack::Packed;
use crate::postgres::dead_letter_arrays::DeadLetters;
use crate::postgres::queries::{Param, Query, param, query};
use crate::postgres::search::RunTerms;

/// The arrays of `commit/all.sql`, and the statement that they need.
#[derive(Debug, Default)]
pub(super) struct Batch<'a> {
    node: Uuid,
    /// Runs that must be unowned. The statement locks them.
    unowned: Vec<Uuid>,
    starts: Starts<'a>,
    heads: Heads<'a>,
    entries: Entries<'a>,
    projections: Projections<'a>,
    bare: Bare<'a>,
    closed: Closed<'a>,
    waits: Waits<'a>,
    taken: Taken<'a>,
    inbox_inputs: InboxInputs<'a>,
    /// Pairs of an item's index and the index of its first inbox input.
    first_inputs: Vec<(usize, usize)>,
    audit: AuditRows<'a>,
    audited: Audited<'a>,
    published: Published<'a>,
    dead_letters: DeadLetters<'a>,
    bound_files: BoundFiles<'a>,
    run_terms: RunTerms<'a>,
    /// The largest need of its items.
    needs: Needs,
    /// Whether an item has columns that few runs have: the place of a machine, a trigger or a later start.
    has_rare_columns: bool,
}

/// Which statement can write an item. Each does everything that the earlier ones do.
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
    /// Collects the items at some indexes, in the order of their locks: starts by their unique key, the others by run.
    /// So two batches never deadlock.
    pub(super) fn gather(node: NodeId, items: &'a [Packed<'_>], indexes: impl Iterator<Item = usize>) -> Result<Self> {
        let mut batch = Self { node: node.uuid(), ..Self::default() };
        let mut indexes: Vec<_> = indexes.collect();
        indexes.sort_by_cached_key(|index| lock_order(items[*index].item));
        for index in indexes {
            batch.push(index, &items[index])?;
        }
        Ok(batch)
    }

    fn push(&mut self, index: usize, packed: &'a Packed<'_>) -> Result<()> {
        let item = packed.item;
        self.needs = self.needs.max(needs(item));
        self.has_rare_columns |= has_rare_columns(item);
        match &item.gate {
            Gate::Start(run) => {
                self.starts.push(item, run)?;
                self.run_terms.push(item.workspace, item.run, run);
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
        if !item.inbox_inputs.is_empty() {
            self.first_inputs.push((index, self.inbox_inputs.len()));
        }
        for input in &item.inbox_inputs {
            self.inbox_inputs.push(item, input);
        }
        if let Some(side) = &item.side {
            self.push_side(item, side)?;
        }
        Ok(())
    }

    fn push_side(&mut self, item: &Item, side: &'a SideWrites) -> Result<()> {
        for row in &side.audit {
            if !self.audited.has(row) {
                self.audit.push(row);
            }
            self.audited.push(item, row);
        }
        for letter in &side.dead_letters {
            self.dead_letters.push(item.run.uuid(), letter);
        }
        side.files.iter().try_for_each(|binding| self.bound_files.push(item, *binding))?;
        side.published.iter().try_for_each(|event| self.published.push(item, event))
    }

    /// Adds the entries and the row of an existing run.
    fn push_gated(&mut self, packed: &'a Packed<'_>, is_unowned: bool) -> Result<()> {
        let item = packed.item;
        if !item.entries.is_empty() {
            self.heads.push(packed, is_unowned)?;
            for entry in 1..item.entries.len() {
                self.entries.push(packed, entry)?;
            }
        }
        match &item.projection {
            Some(projection) => self.projections.push(item, projection, is_unowned)?,
            None if item.entries.is_empty() => self.bare.push(item, is_unowned),
            None => {}
        }
        Ok(())
    }

    /// Adds the net effect of an item's changes, which apply in their order: first closed waits, then open ones.
    fn push_waits(&mut self, item: &'a Item) {
        if item.projection.as_ref().is_some_and(|projection| projection.ended_at.is_some()) {
            self.closed.push(item, None);
            return;
        }
        let mut open: BTreeMap<&StepKey, &Wait> = BTreeMap::new();
        for change in &item.waits {
            match change {
                WaitChange::Open(wait) => {
                    if let Some(twice) = open.insert(&wait.step, wait) {
                        // Written twice, so that the database rejects the item.
                        self.waits.push(item, twice);
                    }
                }
                WaitChange::Close(step) => {
                    open.remove(step);
                    self.closed.push(item, Some(step));
                }
            }
        }
        for wait in open.into_values() {
            self.waits.push(item, wait);
        }
    }

    /// The index of the first inbox input of the item at `index`.
    pub(super) fn first_input(&self, index: usize) -> Option<usize> {
        self.first_inputs.iter().find(|(item, _)| *item == index).map(|(_, input)| *input)
    }

    pub(super) fn count_inputs(&self) -> usize {
        self.inbox_inputs.len()
    }

    /// The statement that writes it, and its parameters in their order there.
    pub(super) fn statement(&self) -> (&'static Query, Vec<Param<'_>>) {
        let (has_audit, publishes) = (!self.audited.is_empty(), !self.published.is_empty());
        let has_others = !self.dead_letters.is_empty() || !self.bound_files.is_empty();
        let has_terms = !self.run_terms.is_empty();
        // The parts before the one for terms, which is the last, belong to its statement too.
        let has_audit = has_audit || has_terms;
        let has_others = has_others || has_terms && (publishes || self.needs == Needs::All);
        let statement = match (self.needs, has_audit, self.has_rare_columns) {
            // Few items have dead letters or bind files, and nearly all of them are of machines; few starts with terms
            // need all parts. One statement serves them all.
            _ if has_others => {
                query!(
                    "commit/all" for rare with
                    "commit/audited", "commit/published", "commit/dead_letters", "commit/bound", "commit/indexed"
                )
            }
            // A start with tags or search attributes.
            _ if has_terms => query!("commit/runs" for rare with "commit/audited", "commit/indexed"),
            (_, _, false) if publishes => query!("commit/all" with "commit/audited", "commit/published"),
            (_, _, true) if publishes => query!("commit/all" for rare with "commit/audited", "commit/published"),
            (Needs::Steps, false, _) => query!("commit/steps"),
            (Needs::Runs, false, false) => query!("commit/runs"),
            (Needs::Runs, false, true) => query!("commit/runs" for rare),
            (Needs::Steps | Needs::Runs, true, false) => query!("commit/runs" with "commit/audited"),
            (Needs::Steps | Needs::Runs, true, true) => query!("commit/runs" for rare with "commit/audited"),
            (Needs::All, false, false) => query!("commit/all"),
            (Needs::All, false, true) => query!("commit/all" for rare),
            (Needs::All, true, false) => query!("commit/all" with "commit/audited"),
            (Needs::All, true, true) => query!("commit/all" for rare with "commit/audited"),
        };
        let mut params = vec![param("node", &self.node)];
        params.extend(self.taken.params());
        params.extend(self.starts.params());
        params.push(param("unowned", &self.unowned));
        params.extend(self.heads.params());
        params.extend(self.projections.params());
        params.extend(self.bare.params());
        params.extend(self.entries.params());
        params.extend(self.closed.params());
        params.extend(self.waits.params());
        params.extend(self.inbox_inputs.params());
        if has_audit || publishes || has_others {
            params.extend(self.audit.params());
            params.extend(self.audited.params());
        }
        if publishes || has_others {
            params.extend(self.published.params());
        }
        if has_others {
            params.extend(self.dead_letters.params());
            params.extend(self.bound_files.params());
        }
        if has_others || has_terms {
            params.extend(self.run_terms.params());
        }
        statement.select(&mut params);
        (statement, params)
    }
}

fn has_rare_columns(item: &Item) -> bool {
    let is_later = match &item.gate {
        Gate::Start(run) => run.trigger.is_some() || run.start.is_some(),
        Gate::Owned | Gate::Unowned => false,
    };
    is_later || item.projection.as_ref().is_some_and(|projection| projection.machine.is_some())
}

fn needs(item: &Item) -> Needs {
    let opens = item.waits.iter().any(|change| matches!(change, WaitChange::Open(_)));
    let is_bare = item.entries.is_empty() && item.projection.is_none();
    let is_unowned = matches!(item.gate, Gate::Unowned);
    if opens || is_bare || is_unowned || !item.taken.is_empty() || !item.inbox_inputs.is_empty() {
        return Needs::All;
    }
    let is_start = matches!(item.gate, Gate::Start(_));
    if is_start || item.projection.is_some() || !item.waits.is_empty() { Needs::Runs } else { Needs::Steps }
}

/// The position of an item in the order of locks. Starts with the same key keep their order: the first one succeeds.
fn lock_order(item: &Item) -> (Uuid, Option<(String, String)>, Uuid) {
    let key = match &item.gate {
        Gate::Start(run) => run.key.clone(),
        Gate::Owned | Gate::Unowned => None,
    };
    match key {
        Some(key) => (item.workspace.uuid(), Some(key), Uuid::nil()),
        None => (Uuid::nil(), None, item.run.uuid()),
    }
}
