//! What must hold of the journals of machines beside the laws of all journals: they agree with the replies that persons
//! received, and with the definition. It is computed from the requests, the definition and the entries alone.

use std::collections::BTreeMap;

use everstep_core::actor::{Actor, ActorKind};
use everstep_core::ids::RunId;
use everstep_core::journal::codec;
use everstep_core::journal::{Entry, Event, TransitionApplied};
use everstep_core::machine::AssignmentChange;
use everstep_store::sqlite::Database;
use everstep_store::{CommitOutcome, Item};
use serde_json::Value;

use super::audit::number_of;
use super::ledger::{Fate, Ledger};
use super::machines::{self, STARTER};
use super::people::PersonRequest;
use super::store::SimStore;
use super::targets;

/// A machine as its entries describe it.
#[derive(Default)]
struct Course {
    state: Option<String>,
    /// The voters that the context names.
    voters: Vec<String>,
    assigned: Vec<String>,
    /// The requests that have written an entry.
    numbers: BTreeMap<u64, usize>,
}

/// Checks the journal of a machine. Entries up to `copied` belong to the run that it was forked from.
pub(super) fn check(ledger: &Ledger, run: RunId, definition: &Value, journal: &[Entry]) -> Result<(), String> {
    let copied = ledger.copied(run);
    let mut course = Course::default();
    for entry in journal {
        let is_own = entry.seq > copied;
        course
            .apply(ledger, run, definition, entry, is_own)
            .map_err(|fault| format!("{run}: entry {}: {fault}", entry.seq))?;
    }
    for (number, request) in ledger.requests.iter().filter(|(_, request)| request.run == run) {
        let times = course.numbers.remove(number).unwrap_or(0);
        let is_right = match request.fate() {
            Fate::Accepted => times == 1,
            Fate::Nothing => times == 0,
            Fate::Unknown => times <= 1,
        };
        if !is_right {
            let fate = request.fate();
            return Err(format!("{run}: request {number}, answered {fate:?}, is in the journal {times} times"));
        }
    }
    match course.numbers.first_key_value() {
        None => Ok(()),
        Some((number, _)) => Err(format!("{run}: no person sent request {number}")),
    }
}

impl Course {
    fn apply(
        &mut self,
        ledger: &Ledger,
        run: RunId,
        definition: &Value,
        entry: &Entry,
        is_own: bool,
    ) -> Result<(), String> {
        match &entry.event {
            Event::RunStarted { input, .. } => self.read_voters(input.value()),
            Event::ContextSet { values } => self.read_voters(values.value()),
            Event::TransitionApplied(applied) => {
                self.check_actor(definition, applied)?;
                if is_own && let Some(number) = number_of(applied.comment.as_deref()) {
                    self.record(ledger, run, number, &applied.by, &applied.action, applied.version_no - 1)?;
                    check_answer(ledger, run, number, entry)?;
                }
                self.enter(definition, applied)?;
            }
            Event::VoteCast(vote) => {
                if is_own && let Some(number) = number_of(vote.comment.as_deref()) {
                    self.record(ledger, run, number, &vote.by, &vote.action, vote.version_no)?;
                    check_answer(ledger, run, number, entry)?;
                }
            }
            Event::Assigned(assigned) => {
                if let AssignmentChange::Who(who) = &assigned.change {
                    self.assigned.clone_from(who);
                }
            }
            Event::TimerSet { .. }
            | Event::TimerFired { .. }
            | Event::StepDispatched { .. }
            | Event::StepCompleted { .. }
            | Event::StepFailed { .. }
            | Event::StepSkipped { .. }
            | Event::WaitOpened { .. }
            | Event::WaitResolved { .. }
            | Event::SignalBuffered { .. }
            | Event::TurnStarted { .. }
            | Event::TurnLost { .. }
            | Event::RunPaused { .. }
            | Event::RunResumed
            | Event::RunRetried
            | Event::RunCompleted { .. }
            | Event::RunFailed { .. }
            | Event::RunCancelled { .. } => {}
        }
        Ok(())
    }

    fn read_voters(&mut self, values: &Value) {
        if let Some(voters) = values.get("voters").and_then(Value::as_array) {
            self.voters = voters.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        }
    }

    /// A request is in the journal with its actor and its action, and took effect on the version that it expected.
    fn record(
        &mut self,
        ledger: &Ledger,
        run: RunId,
        number: u64,
        by: &Actor,
        action: &str,
        version_no: u32,
    ) -> Result<(), String> {
        *self.numbers.entry(number).or_default() += 1;
        let request = ledger.requests.get(&number).filter(|request| request.run == run);
        let request = request.ok_or_else(|| format!("no person sent request {number} to this run"))?;
        if request.act.by != *by || request.act.action != action {
            return Err(format!("request {number} was for {} by {}", request.act.action, request.act.by));
        }
        match request.act.version {
            Some(version) if version != version_no => {
                Err(format!("request {number} expected version {version} and was applied to {version_no}"))
            }
            None if !is_seen_on_arrival(ledger, request, version_no) => {
                Err(format!("request {number} was applied to version {version_no}, which was written after it arrived"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// A person performs only an action that the definition grants them. The laws check quorums.
    fn check_actor(&self, definition: &Value, applied: &TransitionApplied) -> Result<(), String> {
        let action = self.state.as_ref().and_then(|from| machines::action(definition, from, &applied.action));
        let Some(action) = action.filter(|_| applied.by.kind == ActorKind::Person) else { return Ok(()) };
        if action.get("quorum").is_some() {
            return Err(format!("{} was performed without a quorum", applied.action));
        }
        self.check_person(action, &applied.by)
    }

    fn check_person(&self, action: &Value, by: &Actor) -> Result<(), String> {
        let require = &action["require"];
        let is_excluded = require.get("notBy").is_some() && by.id == STARTER;
        let is_unassigned = require.get("assigned").is_some() && !self.assigned.contains(&by.id);
        let is_no_manager = require.get("role").is_some() && machines::rights_of(&by.id).granted.is_empty();
        let is_other = require.get("user").is_some() && !["p3", "p4"].contains(&by.id.as_str());
        if is_excluded || is_unassigned || is_no_manager || is_other {
            return Err(format!("{by} may not perform it: {require}"));
        }
        Ok(())
    }

    /// Entering a state freezes the voters that the context names.
    fn enter(&mut self, definition: &Value, applied: &TransitionApplied) -> Result<(), String> {
        for values in applied.data.iter().chain(&applied.set) {
            self.read_voters(values.value());
        }
        for (name, ballot) in &applied.voters {
            let action = machines::action(definition, &applied.to, name);
            let quorum =
                action.and_then(|action| action.get("quorum")).ok_or_else(|| format!("{name} has no quorum"))?;
            let has_voters = quorum.get("of").is_some();
            if has_voters && ballot.of.as_ref() != Some(&self.voters) {
                return Err(format!("the voters of {name} are {:?}, and the context has {:?}", ballot.of, self.voters));
            }
            let need = needed(&quorum["need"], self.voters.len());
            if ballot.need as usize != need {
                return Err(format!("{name} needs {need} votes, not {}", ballot.need));
            }
        }
        self.state = Some(applied.to.clone());
        self.assigned.clone_from(&applied.assigned);
        Ok(())
    }
}

/// Whether a request without a version was applied to one that existed when it arrived, or was written while its server
/// read the run for the first time: two reads of a server that works take less than half a lease. A request that arrives
/// before the first version expects that one.
fn is_seen_on_arrival(ledger: &Ledger, request: &PersonRequest, version_no: u32) -> bool {
    if version_no == 1 {
        return true;
    }
    // A fork has the versions of its original.
    let Some(written_at) = ledger.versions.get(&(request.run, version_no)) else { return true };
    request.arrivals.iter().any(|(machine, arrived_at)| {
        let seen_by = arrived_at.plus(ledger.lease / 2);
        *written_at <= seen_by || ledger.had_trouble(*machine, *arrived_at, seen_by)
    })
}

/// The answer to a request names the entry that it wrote.
fn check_answer(ledger: &Ledger, run: RunId, number: u64, entry: &Entry) -> Result<(), String> {
    let answer = ledger.requests.get(&number).and_then(|request| request.answer.as_ref());
    match answer.filter(|answer| answer.seq != entry.seq || answer.at != entry.at) {
        None => Ok(()),
        Some(answer) => Err(format!("{run}: the answer to {number} names entry {}", answer.seq)),
    }
}

/// The number of votes that a quorum needs.
fn needed(need: &Value, voters: usize) -> usize {
    match need {
        Value::String(word) if word == "ALL" => voters,
        Value::String(word) if word == "MAJORITY" => voters / 2 + 1,
        Value::String(percent) => {
            let percent: usize = percent.trim_end_matches('%').parse().expect("a generated percentage is a number");
            (voters * percent).div_ceil(100)
        }
        need => need.as_u64().expect("a generated need is a number") as usize,
    }
}

impl SimStore {
    /// After each commit, the row of a machine has the state and the version of its last transition, and its format
    /// covers every entry.
    pub(super) fn watch_rows(&self, db: &Database, items: &[Item], outcomes: &[CommitOutcome]) {
        for (item, outcome) in items.iter().zip(outcomes) {
            if !matches!(outcome, CommitOutcome::Applied(_)) || item.format < 2 {
                continue;
            }
            match check_row(db, item) {
                Ok(written) => {
                    let (now, mut ledger) = (self.executor.now(), self.ledger());
                    ledger.versions.extend(written.into_iter().map(|version_no| ((item.run, version_no), now)));
                }
                Err(fault) => self.ledger().violation(format!("{}: {fault}", item.run)),
            }
        }
    }
}

/// The versions of the machine that the item has written, if its row is right. A fork has the earlier ones of its original.
fn check_row(db: &Database, item: &Item) -> Result<Vec<u32>, String> {
    let row = db.get_run(item.workspace, item.run).map_err(|error| error.to_string())?.ok_or("the run has no row")?;
    let stored = db.journal(item.run, 0, 1_000_000).map_err(|error| error.to_string())?;
    let (mut place, mut format) = (None, 1);
    let (mut journal, mut written) = (Vec::new(), Vec::new());
    let first_seq = item.entries.first().map_or(u64::MAX, |entry| entry.seq);
    for stored in stored {
        let entry = codec::decode(stored.seq, stored.at, stored.row).map_err(|error| error.to_string())?;
        format = format.max(entry.event.format());
        if let Event::TransitionApplied(applied) = &entry.event {
            place = Some((applied.to.clone(), applied.version_no));
            if entry.seq >= first_seq {
                written.push(applied.version_no);
            }
        }
        journal.push(entry);
    }
    targets::check_notice(item, &journal)?;
    let in_row = row.machine.map(|place| (place.state, place.version_no));
    if in_row != place {
        return Err(format!("its row has {in_row:?} and its journal {place:?}"));
    }
    if row.format < format {
        return Err(format!("its row has format {} and its journal {format}", row.format));
    }
    Ok(written)
}
