//! The parts of a commit: the rows of new runs, the heads of items, and the rows after a head.

use std::cell::{Cell, OnceCell};

use everstep_core::ids::{CommitId, NodeId, StepKey};
use everstep_core::planted::{self, Bug};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_core::topics::Trigger;
use rusqlite::{CachedStatement, Connection, OptionalExtension, named_params, params};
use uuid::Uuid;

use super::{reads, sweep};
use crate::error::Error;
use crate::item::{
    CommitOutcome, Gate, InboxId, InboxInput, Item, NewRun, PendingStart, Projection, SentInput, SideWrites, Wait,
    WaitChange,
};
use crate::numbers;
use crate::pack::{self, Packed};
use crate::sqlite::database::Database;
use crate::sqlite::queries::query;
use crate::sqlite::{access, columns, dead_letters, errors, files, search, topics};

type Id = [u8; 16];

/// Why a batch was rolled back.
#[derive(Debug)]
pub(super) enum Stop {
    /// A row of the item at this index, written after its head, already exists.
    Clash(usize),
    Error(Error),
}

/// One pass over a batch, inside its transaction.
pub(super) struct Batch<'tx> {
    tx: &'tx Connection,
    database: &'tx Database,
    node: Id,
    // The statements that every step, and every run, needs are looked up once per batch.
    head: CachedStatement<'tx>,
    entry: CachedStatement<'tx>,
    start: CachedStatement<'tx>,
    run: CachedStatement<'tx>,
    waits_end: CachedStatement<'tx>,
    /// Ids of deleted runs whose journals are not deleted completely; read when the first run starts.
    graves: OnceCell<Vec<Id>>,
    /// The audit row that was written last: neighbouring items may share it.
    last_audit: Cell<Option<Uuid>>,
}

impl<'tx> Batch<'tx> {
    pub(super) fn new(tx: &'tx Connection, node: NodeId, database: &'tx Database) -> Result<Self, Stop> {
        let node = node.uuid().into_bytes();
        Ok(Self {
            tx,
            database,
            node,
            head: tx.prepare_cached(query!("commit/3_head"))?,
            entry: tx.prepare_cached(query!("commit/4_entry"))?,
            start: tx.prepare_cached(query!("commit/2_start"))?,
            run: tx.prepare_cached(query!("commit/4_run"))?,
            waits_end: tx.prepare_cached(query!("commit/4_waits_end"))?,
            graves: OnceCell::new(),
            last_audit: Cell::new(None),
        })
    }

    /// Inserts the row of a new run. Returns the outcome if it was rejected.
    pub(super) fn start(&mut self, item: &Item, run: &NewRun) -> Result<Option<CommitOutcome>, Stop> {
        if self.is_grave(item)? {
            return Ok(Some(CommitOutcome::Conflict));
        }
        let projection = item.projection.as_ref();
        let (scope, key) = run.key.as_ref().map(|(scope, key)| (scope.as_str(), key.as_str())).unzip();
        // By position, in the order of the statement: SQLite searches a named parameter among all of them.
        let inserted = self.start.execute(params![
            id(item),
            projection.and_then(owner),
            projection.map_or(run.created_at, |projection| projection.wake_at).micros(),
            projection.and_then(ended_at),
            projection.map_or(Status::Pending, |projection| projection.status).as_str(),
            item.format,
            item.workspace.uuid().into_bytes(),
            run.workflow,
            run.version,
            run.lane,
            scope,
            key,
            run.parent.map(|parent| parent.uuid().into_bytes()),
            run.retention_days,
            run.is_test,
            run.created_at.micros(),
            run.tags.json(),
            projection.and_then(error_json),
            run.input.json(),
            projection.and_then(output),
        ])?;
        if inserted == 1 {
            self.place(item)?;
            self.cause(item, run)?;
            search::insert_terms(self.tx, item.workspace, item.run, run)?;
            return Ok(None);
        }
        if let Some((scope, key)) = scope.zip(key) {
            let winner = reads::find_keyed(self.tx, item.workspace, scope, key)?;
            if let Some(winner) = winner.filter(|winner| *winner != item.run) {
                return Ok(Some(CommitOutcome::Exists(winner)));
            }
        }
        let is_ours =
            if item.entries.is_empty() { self.owner(item)?.is_some() } else { self.stored(item)? == Stored::Ours };
        Ok(Some(if is_ours { CommitOutcome::Duplicate } else { CommitOutcome::Conflict }))
    }

    /// Whether a deleted run with this id still has entries. The ids are read once per batch: such runs are rare.
    fn is_grave(&self, item: &Item) -> Result<bool, Stop> {
        if self.graves.get().is_none() {
            let _ = self.graves.set(sweep::graves(self.tx)?);
        }
        Ok(self.graves.get().is_some_and(|graves| graves.contains(&id(item))))
    }

    /// Writes an item whose run exists or has just started: its head, and the rest if the head was not rejected.
    pub(super) fn write(&mut self, packed: &Packed<'_>) -> Result<CommitOutcome, Stop> {
        if let Some(refusal) = self.gate(packed)? {
            if planted::is_planted(Bug::ItemWithoutHeadGate) {
                return self.write_without_head(packed);
            }
            return Ok(refusal);
        }
        self.write_rest(packed)
    }

    /// Writes the row that decides whether an item is written. Returns the outcome if it was rejected.
    fn gate(&mut self, packed: &Packed<'_>) -> Result<Option<CommitOutcome>, Stop> {
        let item = packed.item;
        let expected = match item.gate {
            Gate::Start(_) => {
                if !item.entries.is_empty() {
                    self.append(packed, 0, Some(self.node))?;
                }
                return Ok(None);
            }
            Gate::Owned => Some(self.node),
            Gate::Unowned => None,
        };
        if item.entries.is_empty() {
            let is_open = match &item.projection {
                Some(projection) => self.project(item, projection, expected)?,
                None => self.owner(item)? == Some(expected),
            };
            return Ok(if is_open { None } else { Some(CommitOutcome::Lost) });
        }
        bind_entry(&mut self.head, packed, 0, Some(self.node))?;
        self.head.raw_bind_parameter(11, expected)?;
        if self.head.raw_execute()? == 1 {
            return Ok(None);
        }
        let refusal = match self.stored(item)? {
            Stored::Ours => CommitOutcome::Duplicate,
            Stored::Others => CommitOutcome::Conflict,
            // Its seq is free. Either the run has another owner, or the step's attempt has another seq.
            Stored::Nothing if self.owner(item)? == Some(expected) => CommitOutcome::Conflict,
            Stored::Nothing => CommitOutcome::Lost,
        };
        Ok(Some(refusal))
    }

    /// Writes everything except the head.
    fn write_rest(&mut self, packed: &Packed<'_>) -> Result<CommitOutcome, Stop> {
        let item = packed.item;
        for index in 1..item.entries.len() {
            let writer = (!repeats_origin(item, index)).then_some(self.node);
            self.append(packed, index, writer)?;
        }
        if let Some(projection) = &item.projection {
            let expected = match item.gate {
                // The insert has written the projection.
                Gate::Start(_) => None,
                Gate::Owned => Some(Some(self.node)),
                Gate::Unowned => Some(None),
            };
            if let Some(expected) = expected.filter(|_| !item.entries.is_empty()) {
                self.project(item, projection, expected)?;
            }
        }
        self.write_rows(item)
    }

    /// The planted bug: the rest of an item is written although its head was rejected, whichever node owns the run.
    #[cold]
    fn write_without_head(&mut self, packed: &Packed<'_>) -> Result<CommitOutcome, Stop> {
        let item = packed.item;
        for index in 1..item.entries.len() {
            match self.append(packed, index, Some(self.node)) {
                Ok(()) | Err(Stop::Clash(_)) => {}
                Err(stop) => return Err(stop),
            }
        }
        if let (Some(projection), Some(owner)) = (&item.projection, self.owner(item)?) {
            self.project(item, projection, owner)?;
        }
        self.write_rows(item)
    }

    /// Writes the waits of an item, deletes the inbox rows that it answers and sends its inbox inputs.
    fn write_rows(&mut self, item: &Item) -> Result<CommitOutcome, Stop> {
        for change in &item.waits {
            match change {
                WaitChange::Open(wait) => self.open_wait(item, wait)?,
                WaitChange::Close(step) => {
                    self.tx
                        .prepare_cached(query!("commit/4_wait_close"))?
                        .execute(named_params! { ":run": id(item), ":step": step.as_str() })?;
                }
            }
        }
        if item.projection.as_ref().is_some_and(|projection| projection.ended_at.is_some()) {
            self.waits_end.execute(params![id(item)])?;
        }
        for taken in &item.taken {
            let deleted = self
                .tx
                .prepare_cached(query!("commit/4_taken"))?
                .execute(named_params! { ":id": taken.0, ":run": id(item) })?;
            // An input must not be answered twice.
            if deleted == 0 {
                return Err(Stop::Clash(0));
            }
        }
        let sent = item.inbox_inputs.iter().map(|input| self.send(item, input)).collect::<Result<_, _>>()?;
        if let Some(side) = &item.side {
            self.write_side(side)?;
            // A file must not be bound twice, and is not deleted before its binding.
            if !files::bind_files(self.tx, item)? {
                return Err(Stop::Clash(0));
            }
        }
        Ok(CommitOutcome::Applied(sent))
    }

    /// Writes the side rows of an item whose head was written.
    pub(super) fn write_side(&self, side: &SideWrites) -> Result<(), Stop> {
        for row in &side.audit {
            if self.last_audit.replace(Some(row.id)) != Some(row.id) {
                access::insert_audit(self.tx, row)?;
            }
        }
        for event in &side.published {
            topics::insert_event(self.tx, event, None)?;
        }
        for letter in &side.dead_letters {
            dead_letters::insert(self.tx, letter)?;
        }
        Ok(())
    }

    /// Writes an entry after a head. It has no writer if its row is to repeat that of the row before it.
    fn append(&mut self, packed: &Packed<'_>, index: usize, writer: Option<Id>) -> Result<(), Stop> {
        bind_entry(&mut self.entry, packed, index, writer)?;
        self.entry.raw_execute()?;
        Ok(())
    }

    /// Writes a run's row if it has the expected owner. Returns whether it had.
    fn project(&mut self, item: &Item, projection: &Projection, expected: Option<Id>) -> Result<bool, Stop> {
        let written = self.run.execute(params![
            projection.status.as_str(),
            owner(projection),
            projection.wake_at.micros(),
            item.format,
            output(projection),
            error_json(projection),
            ended_at(projection),
            id(item),
            expected,
        ])?;
        if written == 1 {
            self.place(item)?;
        }
        Ok(written == 1)
    }

    /// Writes the place of a machine, if the item has one.
    fn place(&self, item: &Item) -> Result<(), Stop> {
        let Some(place) = item.projection.as_ref().and_then(|projection| projection.machine.as_ref()) else {
            return Ok(());
        };
        self.tx.prepare_cached(query!("commit/4_machine"))?.execute(named_params! {
            ":run": id(item),
            ":state": place.state,
            ":version_no": place.version_no,
        })?;
        Ok(())
    }

    /// Writes the trigger and the later start of a new run, if it has them.
    fn cause(&self, item: &Item, run: &NewRun) -> Result<(), Stop> {
        if run.trigger.is_none() && run.start.is_none() {
            return Ok(());
        }
        self.tx.prepare_cached(query!("commit/2_cause"))?.execute(named_params! {
            ":run": id(item),
            ":trigger": run.trigger.as_ref().map(Trigger::to_json),
            ":start": run.start.as_ref().map(PendingStart::to_json),
        })?;
        Ok(())
    }

    fn open_wait(&self, item: &Item, wait: &Wait) -> Result<(), Stop> {
        let shape = wait.shape();
        self.tx.prepare_cached(query!("commit/4_wait_open"))?.execute(named_params! {
            ":run": id(item),
            ":step": wait.step.as_str(),
            ":workspace": item.workspace.uuid().into_bytes(),
            ":event": wait.event,
            ":deadline": wait.deadline.map(Timestamp::micros),
            ":pattern": wait.pattern.json().as_bytes(),
            ":kind": wait.kind.as_str(),
            ":by_topic": wait.by_topic,
            ":shape": shape.as_ref().map(|shape| shape.shape.as_str()),
            ":shape_hash": shape.as_ref().map(|shape| shape.shape_hash),
            ":match_hash": shape.as_ref().map(|shape| shape.match_hash),
        })?;
        Ok(())
    }

    /// Writes an inbox input, unless its run has ended. A run that does not exist may be about to start.
    fn send(&self, item: &Item, input: &InboxInput) -> Result<SentInput, Stop> {
        let to = input.to.uuid().into_bytes();
        let addressee = self
            .tx
            .prepare_cached(query!("commit/4_addressee"))?
            .query_row(named_params! { ":to": to }, |row| {
                Ok((columns::optional_uuid(row, 0)?.map(NodeId::from_uuid), row.get(1)?, row.get(2)?))
            })
            .optional()?;
        let (owner, workspace, has_ended): (_, Id, bool) =
            addressee.unwrap_or_else(|| (None, item.workspace.uuid().into_bytes(), false));
        if has_ended {
            return Ok(SentInput { id: None, owner: None });
        }
        let now = item.entries.last().map_or_else(|| self.database.now(), |entry| entry.at);
        self.tx.prepare_cached(query!("commit/4_inbox_input"))?.execute(named_params! {
            ":to": to,
            ":workspace": workspace,
            ":now": now.micros(),
            ":input": input.input,
        })?;
        Ok(SentInput { id: Some(InboxId(self.tx.last_insert_rowid())), owner })
    }

    /// The stored entry that has the seq of an item's head.
    fn stored(&self, item: &Item) -> Result<Stored, Stop> {
        let Some(head) = item.entries.first() else {
            return Ok(Stored::Nothing);
        };
        let mut statement = self.tx.prepare_cached(query!("commit/3_stored"))?;
        let params = named_params! { ":run": id(item), ":seq": numbers::clamp_seq(head.seq) };
        let commit = statement.query_row(params, |row| columns::optional_uuid(row, 0)).optional()?;
        Ok(match commit {
            None => Stored::Nothing,
            Some(commit) if commit.map(CommitId::from_uuid) == Some(item.commit) => Stored::Ours,
            Some(_) => Stored::Others,
        })
    }

    /// A run's owner; `None` if the run does not exist.
    fn owner(&self, item: &Item) -> Result<Option<Option<Id>>, Stop> {
        let mut statement = self.tx.prepare_cached(query!("commit/3_owner"))?;
        Ok(statement.query_row(named_params! { ":run": id(item) }, |row| row.get(0)).optional()?)
    }
}

#[derive(Debug, PartialEq)]
enum Stored {
    Nothing,
    Ours,
    Others,
}

/// Whether the row of an entry leaves out its writer and its time: they are those of the entry before it, which the same
/// item writes.
fn repeats_origin(item: &Item, index: usize) -> bool {
    let [before, entry] = [&item.entries[index - 1], &item.entries[index]];
    before.at == entry.at && before.seq.checked_add(1) == Some(entry.seq)
}

/// Binds an entry to `3_head` or `4_entry`, whose first ten parameters are the same. Without a writer, its row repeats the
/// writer and the time of the row before it: see `entries`.
fn bind_entry(
    statement: &mut CachedStatement<'_>,
    packed: &Packed<'_>,
    index: usize,
    writer: Option<Id>,
) -> Result<(), Stop> {
    let item = packed.item;
    let entry = &item.entries[index];
    let (codec, payload) = pack::omit_no_output(packed.payload(index));
    let (writer, at) = match &writer {
        Some(writer) => (writer.as_slice(), entry.at.micros()),
        None => (b"".as_slice(), 0),
    };
    statement.raw_bind_parameter(1, id(item))?;
    statement.raw_bind_parameter(2, numbers::checked_seq(entry.seq)?)?;
    statement.raw_bind_parameter(3, writer)?;
    statement.raw_bind_parameter(4, (index == 0).then(|| item.commit.uuid().into_bytes()))?;
    statement.raw_bind_parameter(5, at)?;
    statement.raw_bind_parameter(6, entry.row.kind.number())?;
    statement.raw_bind_parameter(7, entry.row.step.as_ref().map(StepKey::as_str))?;
    statement.raw_bind_parameter(8, entry.row.attempt)?;
    statement.raw_bind_parameter(9, codec.number())?;
    statement.raw_bind_parameter(10, payload)?;
    Ok(())
}

fn id(item: &Item) -> Id {
    item.run.uuid().into_bytes()
}

fn owner(projection: &Projection) -> Option<Id> {
    projection.owner.map(|owner| owner.uuid().into_bytes())
}

fn ended_at(projection: &Projection) -> Option<i64> {
    projection.ended_at.map(Timestamp::micros)
}

fn output(projection: &Projection) -> Option<&[u8]> {
    projection.output.as_ref().map(|output| output.json().as_bytes())
}

fn error_json(projection: &Projection) -> Option<String> {
    projection.error.as_ref().map(|error| serde_json::to_string(error).expect("a failure is plain data"))
}

impl Stop {
    /// The same error, for the item at `index`.
    pub(super) fn at_index(self, index: usize) -> Self {
        match self {
            Self::Clash(_) => Self::Clash(index),
            Self::Error(error) => Self::Error(error),
        }
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        if errors::is_taken(&error) { Self::Clash(0) } else { Self::Error(error.into()) }
    }
}
