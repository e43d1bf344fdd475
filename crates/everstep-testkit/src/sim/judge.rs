//! The conditions at the end of a simulation.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use everstep_core::definition;
use everstep_core::failure::code;
use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::journal::codec;
use everstep_core::journal::law;
use everstep_core::journal::{DecidedEnd, Dispatch, Entry, Event, Resolution};
use everstep_core::payload::Payload;
use everstep_core::run::{OpenActivity, OpenStep, State};
use everstep_core::status::Status;
use everstep_core::workflow::{Style, Workflow};
use everstep_engine::World;
use everstep_store::{RunRow, StoredEntry};

use super::PlayedJournal;
use super::audit;
use super::changes;
use super::events;
use super::figures::{self, Figures};
use super::follower;
use super::ledger::{Fate, Ledger};
use super::machines::Machines;
use super::offers::BoundFiles;
use super::requeues;
use super::scripts::Scripts;
use super::store::SimStore;
use super::targets;
use super::transitions;
use super::turns;

/// Reads runs and checks them against the laws.
pub(super) struct Judge {
    pub(super) store: SimStore,
    world: World,
    workflows: Mutex<BTreeMap<(String, u32), Arc<Workflow>>>,
    scripts: Scripts,
    machines: Machines,
}

pub(super) struct Judged {
    pub(super) entries: usize,
    pub(super) digest: u64,
}

impl Judge {
    pub(super) fn new(store: SimStore, world: World, scripts: Scripts, machines: Machines) -> Self {
        Self { store, world, workflows: Mutex::default(), scripts, machines }
    }

    /// Whether workers have functions of a name.
    pub(super) fn is_scripted(&self, name: &str) -> bool {
        self.scripts.keys().any(|(known, _)| known == name)
    }

    pub(super) fn row(&self, run: RunId) -> Result<RunRow, String> {
        let row = self.store.direct(|db| db.get_run(WorkspaceId::DEFAULT, run)).map_err(|error| error.to_string())?;
        row.ok_or_else(|| format!("{run} was reported as started and does not exist"))
    }

    fn workflow(&self, row: &RunRow) -> Result<Arc<Workflow>, String> {
        let key = (row.workflow.clone(), row.version);
        if let Some(workflow) = self.workflows.lock().expect("one thread").get(&key) {
            return Ok(Arc::clone(workflow));
        }
        if is_code(row) {
            let (name, version) = (row.workflow.clone(), row.version);
            return Ok(Arc::new(Workflow {
                name,
                version,
                style: Style::Code,
                is_unsaved: false,
                publisher: Default::default(),
            }));
        }
        let found = self.store.direct(|db| db.workflow(row.workspace, &row.workflow, Some(row.version)));
        let found = found.map_err(|error| error.to_string())?.ok_or("the workflow does not exist")?;
        let style = definition::load(found.definition.value(), &*self.world.handlers, &*self.world.evaluate)
            .map_err(|problems| format!("{problems:?}"))?;
        let workflow = Arc::new(Workflow {
            name: found.name,
            version: found.version,
            style,
            is_unsaved: false,
            publisher: Default::default(),
        });
        self.workflows.lock().expect("one thread").insert(key, Arc::clone(&workflow));
        Ok(workflow)
    }

    pub(super) fn journal(&self, run: RunId) -> Result<Vec<Entry>, String> {
        Ok(self.written(run)?.into_iter().map(|(_, entry)| entry).collect())
    }

    /// Whether a run belongs to a graph.
    pub(super) fn is_graph(&self, run: RunId) -> bool {
        self.row(run).is_ok_and(|row| !is_code(&row) && !self.machines.contains_key(&row.workflow))
    }

    /// A journal, with the writer of each entry.
    fn written(&self, run: RunId) -> Result<Vec<(NodeId, Entry)>, String> {
        self.read_journal(run, |stored| stored.writer)
    }

    /// A journal, with a property of each stored entry.
    fn read_journal<T>(&self, run: RunId, property: fn(&StoredEntry) -> T) -> Result<Vec<(T, Entry)>, String> {
        let stored = self.store.direct(|db| db.journal(run, 0, 1_000_000)).map_err(|error| error.to_string())?;
        let read = |stored: StoredEntry| {
            let property = property(&stored);
            let entry = codec::decode(stored.seq, stored.at, stored.row).map_err(|error| error.to_string())?;
            Ok((property, entry))
        };
        stored.into_iter().map(read).collect()
    }

    /// The journals of all runs.
    pub(super) fn journals(&self) -> Result<Vec<PlayedJournal>, String> {
        let runs = self.store.ledger().runs();
        let read = |run: RunId| {
            let workflow = self.workflow(&self.row(run)?)?;
            let entries = self.store.direct(|db| db.journal(run, 0, 1_000_000)).map_err(|error| error.to_string())?;
            Ok(PlayedJournal { run, workflow, copied: self.store.ledger().copied(run), entries })
        };
        runs.into_iter().map(read).collect()
    }

    /// The figures of runs over time, and the statuses that the follower of the workspace knows.
    fn check_figures(&self, runs: &[RunId], has_lost_nodes: bool) -> Result<(), String> {
        let mut journals = Figures::new();
        for run in runs {
            let row = self.row(*run)?;
            let journal = self.read_journal(*run, |stored| stored.commit.is_some())?;
            let copied = self.store.ledger().copied(*run);
            figures::count_run(&mut journals, *run, &*self.workflow(&row)?, &journal, copied)?;
            follower::check(self.store.ledger().feed.as_ref(), *run, row.status)?;
        }
        figures::check(&self.store, &journals, has_lost_nodes)
    }

    pub(super) fn fold(&self, row: &RunRow, journal: &[Entry]) -> Result<State, String> {
        State::fold(row.id, &*self.workflow(row)?, journal).map_err(|error| error.to_string())
    }

    /// Whether a state that the engine holds is the fold of the journal up to its seq.
    pub(super) fn compare(&self, held: &State) -> Result<(), String> {
        let journal = self.journal(held.run)?;
        let upto = journal.get(..held.seq as usize).ok_or("the engine holds entries that are not durable")?;
        let folded = self.fold(&self.row(held.run)?, upto)?;
        if folded == *held { Ok(()) } else { Err(format!("{}: the state is not the fold of its journal", held.run)) }
    }

    /// Whether the parent of a run waited for it and no longer does.
    pub(super) fn is_left(&self, row: &RunRow) -> Result<bool, String> {
        let Some(parent) = row.parent else { return Ok(false) };
        let is_waited_for = |entry: &Entry| match &entry.event {
            Event::RunStarted { cause, .. } => {
                cause.as_ref().and_then(|cause| cause.parent.as_ref()).is_some_and(|parent| parent.waits)
            }
            _ => false,
        };
        let journal = self.journal(row.id)?;
        // A machine in a terminal state has notified its parent, and ends after its last delivery.
        if !journal.iter().any(is_waited_for) || decided_end(&journal).is_some() {
            return Ok(false);
        }
        let state = self.fold(&self.row(parent)?, &self.journal(parent)?)?;
        let is_child = |open: OpenStep<'_>| matches!(open.activity, OpenActivity::Child(child) if child.run == row.id);
        Ok(state.has_ended() || !state.open().any(is_child))
    }

    /// A step has the result of its child.
    fn check_children(&self, run: RunId, journal: &[Entry]) -> Result<(), String> {
        let mut children = BTreeMap::new();
        for entry in journal {
            match &entry.event {
                Event::StepDispatched { step, attempt, dispatch: Dispatch::Child(child) } => {
                    children.insert((step, *attempt), child);
                }
                Event::StepCompleted { step, attempt, outcome } => {
                    let Some(child) = children.get(&(step, *attempt)) else { continue };
                    let row = self.row(child.run)?;
                    let end = decided_end(&self.journal(child.run)?);
                    let output = match &end {
                        Some(DecidedEnd::Completed { output }) => Some(output),
                        Some(DecidedEnd::Failed { .. }) => None,
                        None => row.output.as_ref().filter(|_| row.status == Status::Completed),
                    };
                    if child.waits && output.map(Payload::json) != Some(outcome.output.json()) {
                        return Err(format!("{run}: {step} has another output than its child {}", child.run));
                    }
                }
                Event::StepFailed { step, attempt, failure, .. } => {
                    let Some(child) = children.get(&(step, *attempt)) else { continue };
                    let has_failed = || {
                        let status = self.row(child.run).map(|row| row.status);
                        matches!(status, Ok(Status::Failed | Status::Cancelled))
                    };
                    if failure.code != code::STEP_TIMEOUT && !has_failed() {
                        return Err(format!("{run}: {step} failed and its child {} did not: {failure}", child.run));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks all runs. `has_crashed` if a process has ended.
    pub(super) fn verdict(&self, has_crashed: bool) -> Result<Judged, String> {
        let mut hasher = DefaultHasher::new();
        let mut entries = 0;
        let started = self.store.ledger().started.clone();
        for (key, run) in &started {
            let row = self.row(*run)?;
            if row.key.as_ref().map(|(_, key)| key) != Some(key) {
                return Err(format!("{run} was answered for key {key} and has {:?}", row.key));
            }
        }
        let runs = self.store.ledger().runs();
        let mut bound = BoundFiles::default();
        for run in runs.iter().copied() {
            let written = self.written(run)?;
            let journal: Vec<Entry> = written.iter().map(|(_, entry)| entry.clone()).collect();
            self.judge_run(run, &journal)?;
            self.check_children(run, &journal)?;
            let definition = self.machines.get(&self.row(run)?.workflow);
            let ledger = self.store.ledger();
            if let Some(definition) = definition {
                transitions::check(&ledger, run, definition, &journal)
                    .map_err(|fault| format!("{fault}\n{}", show(&journal)))?;
                let copied = ledger.copied(run);
                drop(ledger);
                bound.add(run, &journal, copied)?;
                targets::check(&self.store, run, &journal, copied)
                    .map_err(|fault| format!("{fault}\n{}", show(&journal)))?;
            } else {
                drop(ledger);
            }
            let ledger = self.store.ledger();
            check_writers(&ledger, run, &written)?;
            check_attempts(&ledger, run, &written)?;
            check_signals(&ledger, run, &journal)?;
            drop(ledger);
            entries += journal.len();
            format!("{journal:?}").hash(&mut hasher);
        }
        let has_lost_nodes = has_crashed || !self.store.ledger().fenced.is_empty();
        self.check_figures(&runs, has_lost_nodes)?;
        bound.check(&self.store)?;
        requeues::check(&self.store)?;
        audit::check(&self.store, &started, |run| self.journal(run))?;
        changes::check(&self.store, |run| self.journal(run), &mut hasher)?;
        if self.store.ledger().has_events {
            events::check(&self.store, self)?;
        }
        let stored = self.store.count_entries();
        let of_neighbours = self.store.check_neighbours()?;
        if stored != (entries + of_neighbours) as u64 {
            let known = entries + of_neighbours;
            return Err(format!("{stored} entries are stored, {known} belong to runs that were started"));
        }
        Ok(Judged { entries, digest: hasher.finish() })
    }

    /// Checks that a run has ended according to the laws.
    fn judge_run(&self, run: RunId, journal: &[Entry]) -> Result<(), String> {
        let row = self.row(run)?;
        let workflow = self.workflow(&row)?;
        let state = law::check(run, &workflow, journal, &*self.world.evaluate, false)
            .map_err(|fault| format!("{run}: {fault}\n{}", show(journal)))?;
        if !state.has_ended() || row.ended_at.is_none() || row.status != state.status() {
            return Err(format!("{run} is {} and its row has {}", state.status(), row.status));
        }
        if is_code(&row) {
            let script = self.scripts.get(&(row.workflow.clone(), row.version));
            let script =
                script.ok_or_else(|| format!("{run} belongs to {} {}, which is unknown", row.workflow, row.version))?;
            turns::check(&self.store.ledger(), run, script, journal)
                .map_err(|fault| format!("{fault}\n{}", show(journal)))?;
        }
        if row.owner.is_some() {
            return Err(format!("{run} has ended and is owned"));
        }
        let copied = self.store.ledger().copied(run);
        let own = journal.iter().filter(|entry| entry.seq > copied);
        let answered = own.filter(|entry| is_inbox_signal(&entry.event)).count();
        let sent = self.store.ledger().inbox_signals_sent.get(&run).copied().unwrap_or(0);
        if answered > sent {
            return Err(format!("{run}: {answered} waits were answered by {sent} inbox signals"));
        }
        Ok(())
    }
}

/// The end of a machine's run that was decided before its last delivery.
fn decided_end(journal: &[Entry]) -> Option<DecidedEnd> {
    journal.iter().rev().find_map(|entry| match &entry.event {
        Event::TransitionApplied(applied) => applied.end.clone(),
        _ => None,
    })
}

/// Whether workers run a run's function.
pub(super) fn is_code(row: &RunRow) -> bool {
    row.lane.starts_with("code/")
}

/// Every entry was written by a commit that the database accepted, of the node that the entry names.
fn check_writers(ledger: &Ledger, run: RunId, written: &[(NodeId, Entry)]) -> Result<(), String> {
    let copied = ledger.copied(run);
    for (writer, entry) in written.iter().filter(|(_, entry)| entry.seq > copied) {
        let seen = ledger.writers.get(&(run, entry.seq));
        if seen != Some(writer) {
            return Err(format!("{run}: entry {} belongs to {writer}, and was written by {seen:?}", entry.seq));
        }
    }
    Ok(())
}

/// An attempt ends with the result of its handler, or with the node that dispatched it; an outage costs no attempt.
fn check_attempts(ledger: &Ledger, run: RunId, written: &[(NodeId, Entry)]) -> Result<(), String> {
    let copied = ledger.copied(run);
    let mut open = BTreeMap::new();
    let mut deliveries = BTreeSet::new();
    for (writer, entry) in written.iter().filter(|(_, entry)| entry.seq > copied) {
        match &entry.event {
            Event::RunRetried => open.clear(),
            // A delivery that is dispatched in the item of a pause is not begun before the run is resumed.
            Event::RunPaused { .. } => open.retain(|step, _| !deliveries.contains(step)),
            Event::StepDispatched { step, dispatch: Dispatch::Delivery(delivery), .. } if delivery.is_task() => {
                deliveries.insert(step);
                open.insert(step, *writer);
            }
            Event::StepDispatched { step, attempt, dispatch: Dispatch::Task } => {
                let before = open.insert(step, *writer);
                let was_stopped = ledger.members.get(writer).is_some_and(|member| member.was_stopped);
                if before == Some(*writer) && !was_stopped {
                    return Err(format!("{run}: {writer} lost {step} #{} without a reason", attempt - 1));
                }
            }
            Event::StepCompleted { step, .. } => _ = open.remove(step),
            Event::StepFailed { step, attempt, failure, .. } if open.remove(step).is_some() => {
                let task = (run, step.clone(), *attempt);
                let is_explained = match failure.code.as_str() {
                    "UNLUCKY" | "BROKEN" => ledger.failed.contains(&task),
                    "CONFLICT" | "VALIDATION_ERROR" | "IDEMPOTENCY_KEY_REUSED" => ledger.failed.contains(&task),
                    code::STEP_TIMEOUT => ledger.performed.contains(&task),
                    code::CRASH_LOOP => true,
                    _ => false,
                };
                if !is_explained {
                    return Err(format!("{run}: {step} #{attempt} failed without a cause: {failure}"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// An accepted signal is in the journal once; a signal that was not written is not in it.
fn check_signals(ledger: &Ledger, run: RunId, journal: &[Entry]) -> Result<(), String> {
    let mut seen = signals_in(journal, ledger.copied(run));
    for (number, signal) in ledger.signals.iter().filter(|(_, signal)| signal.run == run) {
        let times = seen.remove(number).unwrap_or(0);
        let is_right = match signal.fate {
            // A run that was cancelled before it began has taken nothing.
            Fate::Accepted => times == 1 || has_not_begun(journal),
            Fate::Nothing => times == 0,
            Fate::Unknown => times <= 1,
        };
        if !is_right {
            return Err(format!("{run}: signal {number}, answered {:?}, is in the journal {times} times", signal.fate));
        }
    }
    if seen.is_empty() { Ok(()) } else { Err(format!("{run}: signals that no client sent: {seen:?}")) }
}

/// Whether a run was cancelled before it began.
fn has_not_begun(journal: &[Entry]) -> bool {
    matches!(journal, [first, last]
        if matches!(first.event, Event::RunStarted { .. }) && matches!(last.event, Event::RunCancelled { .. }))
}

/// The numbers of the signals in a journal, and how often each is there. The first entries may be copied from another
/// run: those up to the seq `copied`.
pub(super) fn signals_in(journal: &[Entry], copied: u64) -> BTreeMap<u64, usize> {
    let mut seen: BTreeMap<u64, usize> = BTreeMap::new();
    // The payload of a wait is also part of the output of the scope around it.
    let mut waits = BTreeSet::new();
    for entry in journal {
        match &entry.event {
            Event::StepDispatched { step, dispatch: Dispatch::Wait { .. }, .. } => _ = waits.insert(step),
            _ if entry.seq <= copied => {}
            Event::StepCompleted { step, outcome, .. } if waits.contains(step) => {
                if let Some(number) = outcome.output.value().get("signal").and_then(serde_json::Value::as_u64) {
                    *seen.entry(number).or_default() += 1;
                }
            }
            // A buffered signal may be taken later.
            Event::WaitResolved { by: Resolution::Signal { payload, buffered: None, .. }, .. }
            | Event::SignalBuffered { payload, .. } => {
                if let Some(number) = payload.value().get("signal").and_then(serde_json::Value::as_u64) {
                    *seen.entry(number).or_default() += 1;
                }
            }
            _ => {}
        }
    }
    seen
}

/// Whether a wait was answered by an inbox signal.
fn is_inbox_signal(event: &Event) -> bool {
    let payload_json = r#"{"inbox":true}"#;
    match event {
        Event::StepCompleted { outcome, .. } => outcome.output.json() == payload_json,
        Event::WaitResolved { by: Resolution::Signal { payload, .. }, .. } => payload.json() == payload_json,
        _ => false,
    }
}

/// The last entries of a journal, for people.
pub(super) fn show(journal: &[Entry]) -> String {
    let from = journal.len().saturating_sub(12);
    let lines = journal[from..].iter().map(|entry| {
        let step = entry.event.step().map(|(step, attempt)| format!(" {step} #{attempt}")).unwrap_or_default();
        format!("    {} {}{step}", entry.seq, entry.event.kind().name())
    });
    lines.collect::<Vec<_>>().join("\n")
}
