//! The targets of the webhooks of machines, and what must hold of deliveries: every delivery of a committed transition was
//! performed, or is a dead letter with all its attempts; a fork performs none of its original.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use everstep_core::evaluate::Fault;
use everstep_core::failure::Failure;
use everstep_core::ids::{RunId, StepKey};
use everstep_core::journal::{Delivery, Dispatch, Entry, Event, Outcome, codec};
use everstep_core::kinds::KindInfo;
use everstep_core::schema::Schema;
use everstep_handlers::{Description, Handler, Task, TaskResult};
use everstep_store::{DeadLetterFilter, DeadLetterRow, Item};
use serde_json::{Value, json};

use super::handlers::{watch, watch_lease};
use super::store::SimStore;

/// The time limit of a delivery.
const TIMEOUT_SECONDS: u64 = 3;

/// A side effect for a random machine.
pub(super) fn effect(id: &str) -> Value {
    let target = "https://target.example/";
    json!({"id": id, "type": "webhook", "target": target, "timeoutSeconds": TIMEOUT_SECONDS, "payload": {"n": "{{ctx.n}}"}})
}

/// Targets that accept, refuse, hang and answer late.
pub(super) struct Targets {
    description: Description,
    store: SimStore,
}

impl Targets {
    pub(super) fn new(store: SimStore) -> Self {
        let info = KindInfo { name: Delivery::WEBHOOK.into(), ..KindInfo::default() };
        let description = Description {
            info,
            title: "Webhook",
            group: "Test",
            icon: "zap",
            summary: "Sends a message to a target that may fail.",
            output: "The status.",
            schema: Schema::built_in(&json!({})),
            examples: Vec::new(),
            is_internal: true,
            concurrency: 4,
        };
        Self { description, store }
    }
}

#[async_trait]
impl Handler for Targets {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn check(&self, _config: &Value) -> Vec<Fault> {
        Vec::new()
    }

    async fn perform(&self, task: Task) -> TaskResult {
        if self.store.is_requeued(&task) {
            watch_lease(&self.store, &task);
        } else {
            watch(&self.store, &task);
        }
        if let Err(fault) = check_task(&self.store, &task) {
            self.store.ledger().violation(format!("{} {}: {fault}", task.run, task.step));
        }
        let executor = &self.store.executor;
        let is_calm = self.store.ledger().is_calm;
        let (luck, millis) = executor.with_random(|random| (random.below(100), random.between(0, 1_500)));
        match luck {
            0..40 => executor.waver().await,
            40..90 => executor.sleep(Duration::from_millis(millis)).await,
            // It hangs for longer than the time limit.
            _ if !is_calm => executor.sleep(Duration::from_secs(2 * TIMEOUT_SECONDS)).await,
            _ => {}
        }
        let result = match executor.with_random(|random| random.below(100)) {
            0..30 if !is_calm => Err(Failure::transient("UNLUCKY", "the target has failed")),
            30..50 if !is_calm => Err(Failure::fatal("BROKEN", "the target has refused it")),
            _ => Ok(Outcome::from_output(json!({"status": 204}))),
        };
        let mut ledger = self.store.ledger();
        match &result {
            Ok(_) => {
                let id = task.config["delivery"]["id"].as_str().unwrap_or_default();
                ledger.delivered.insert((id.to_owned(), task.attempt as usize));
            }
            Err(_) => _ = ledger.failed.insert((task.run, task.step, task.attempt)),
        }
        drop(ledger);
        result.into()
    }
}

/// A delivery is performed by the run that has decided it, with the config that was decided.
fn check_task(store: &SimStore, task: &Task) -> Result<(), String> {
    let journal = store.direct(|db| db.journal(task.run, 0, 100_000)).map_err(|error| error.to_string())?;
    let decided = journal.into_iter().find_map(|stored| {
        let entry = codec::decode(stored.seq, stored.at, stored.row).ok()?;
        match entry.event {
            Event::StepDispatched { step, dispatch: Dispatch::Delivery(delivery), .. } if step == task.step => {
                Some(delivery)
            }
            _ => None,
        }
    });
    let decided = decided.ok_or("it is performed and was not decided")?;
    let data = &task.config["delivery"]["data"];
    if data["runId"] != task.run.to_string() {
        return Err(format!("it was decided by {}", data["runId"]));
    }
    let written = &decided.config.value()["delivery"]["data"];
    for field in ["versionNo", "toState", "payload"] {
        if data[field] != written[field] {
            return Err(format!("its {field} is {}, and {} was decided", data[field], written[field]));
        }
    }
    Ok(())
}

/// Every own delivery of a run that has ended was performed or is a dead letter, and no other dead letter exists.
pub(super) fn check(store: &SimStore, run: RunId, journal: &[Entry], copied: u64) -> Result<(), String> {
    let mut letters = read_letters(store, run)?;
    let mut failures: BTreeMap<&StepKey, usize> = BTreeMap::new();
    let mut decided = Vec::new();
    let mut performed = Vec::new();
    for entry in journal.iter().filter(|entry| entry.seq > copied) {
        match &entry.event {
            Event::StepDispatched { step, dispatch: Dispatch::Delivery(_), .. } => decided.push(step),
            Event::StepFailed { step, .. } => *failures.entry(step).or_default() += 1,
            Event::StepCompleted { step, .. } => performed.push(step),
            _ => {}
        }
    }
    for step in decided {
        let letter = letters.remove(step.as_str());
        match (performed.contains(&step), letter) {
            (true, None) => {}
            (true, Some(_)) => return Err(format!("{run}: {step} was performed and is a dead letter")),
            (false, None) => return Err(format!("{run}: {step} was not performed and is no dead letter")),
            (false, Some(row)) => {
                let attempts = &row.letter.attempts;
                let is_cancelled = attempts.iter().any(|attempt| attempt.code == "RUN_CANCELLED");
                let expected = failures.get(step).copied().unwrap_or(0) + usize::from(is_cancelled);
                let requeues = store.ledger().requeues.get(&row.letter.id).copied().unwrap_or_default();
                let (count, possible) = (attempts.len(), requeues.attempts_after(expected));
                if !possible.contains(&count) {
                    return Err(format!("{run}: the dead letter of {step} has {count} attempts, not {possible:?}"));
                }
            }
        }
    }
    match letters.first_key_value() {
        None => Ok(()),
        Some((step, _)) => Err(format!("{run}: {step} is a dead letter of no delivery")),
    }
}

/// The dead letters of a run by their steps.
fn read_letters(store: &SimStore, run: RunId) -> Result<BTreeMap<String, DeadLetterRow>, String> {
    let filter = DeadLetterFilter { run: Some(run), ..DeadLetterFilter::default() };
    let rows = store.letters(filter)?;
    let count = rows.len();
    let step = |row: &DeadLetterRow| row.letter.step.as_ref().map_or("", StepKey::as_str).to_owned();
    let letters: BTreeMap<_, _> = rows.into_iter().map(|row| (step(&row), row)).collect();
    if letters.len() == count { Ok(letters) } else { Err(format!("{run}: a delivery has two dead letters")) }
}

/// The item in which the end of a machine's run is decided notifies the parent that waits for the run.
pub(super) fn check_notice(item: &Item, journal: &[Entry]) -> Result<(), String> {
    let Some(Event::RunStarted { cause, .. }) = journal.first().map(|entry| &entry.event) else { return Ok(()) };
    let parent = cause.as_ref().and_then(|cause| cause.parent.as_ref());
    let Some(parent) = parent.filter(|parent| parent.waits && parent.started(item.run)) else { return Ok(()) };
    let first = item.entries.first().map_or(u64::MAX, |entry| entry.seq);
    let decides_end =
        |entry: &Entry| matches!(&entry.event, Event::TransitionApplied(applied) if applied.end.is_some());
    let is_decided = journal.iter().any(|entry| entry.seq >= first && decides_end(entry));
    match is_decided && !item.inbox_inputs.iter().any(|input| input.to == parent.run) {
        true => Err(format!("its end was decided, and its parent {} was not notified", parent.run)),
        false => Ok(()),
    }
}
