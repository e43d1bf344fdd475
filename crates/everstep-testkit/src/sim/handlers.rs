//! The task kinds of simulated workflows. They also observe the engine.

use std::time::Duration;

use async_trait::async_trait;
use everstep_core::evaluate::Fault;
use everstep_core::failure::Failure;
use everstep_core::journal::{Kind, Outcome};
use everstep_core::kinds::KindInfo;
use everstep_core::run::Input;
use everstep_core::schema::Schema;
use everstep_handlers::{Description, Handler, Task, TaskResult};
use serde_json::{Value, json};

use super::store::{POISON, SimStore};

pub(super) struct Act {
    description: Description,
    store: SimStore,
    timeout: Duration,
    longest: u64,
}

impl Act {
    pub(super) fn new(store: SimStore) -> Self {
        let (seconds, longest) = if store.ledger().is_shared { (4, 1_500) } else { (20, 3_000) };
        let info = KindInfo {
            name: "act".into(),
            output_variable: Some("acted".into()),
            timeout_seconds: seconds,
            ..KindInfo::default()
        };
        let description = Description {
            info,
            title: "Act",
            group: "Test",
            icon: "zap",
            summary: "Performs work that takes time and may fail.",
            output: "The output in the config of the step.",
            schema: Schema::built_in(&json!({})),
            examples: Vec::new(),
            is_internal: true,
            concurrency: 3,
        };
        Self { description, store, timeout: Duration::from_secs(seconds.into()), longest }
    }
}

/// A task is performed only after its dispatch is durable, never twice under one attempt, and not by a node whose
/// lease has nearly expired.
pub(super) fn watch(store: &SimStore, task: &Task) {
    let journal = store.direct(|db| db.journal(task.run, 0, 100_000)).unwrap_or_default();
    let is_durable = journal.iter().any(|entry| {
        entry.row.kind == Kind::StepDispatched
            && entry.row.step.as_ref() == Some(&task.step)
            && entry.row.attempt == task.attempt
    });
    let mut ledger = store.ledger();
    let (run, step, attempt) = (task.run, &task.step, task.attempt);
    if !is_durable {
        ledger.violation(format!("{run} {step} #{attempt} is performed before its dispatch is durable"));
    }
    if !ledger.performed.insert((run, step.clone(), attempt)) {
        ledger.violation(format!("{run} {step} #{attempt} is performed twice"));
    }
    drop(ledger);
    watch_lease(store, task);
}

/// A task, also that of a requeue, is not performed by a node whose lease has nearly expired.
pub(super) fn watch_lease(store: &SimStore, task: &Task) {
    let now = store.executor.now();
    let mut ledger = store.ledger();
    let (run, step, attempt) = (task.run, &task.step, task.attempt);
    let (silence, is_late) = ledger.silence(store.machine, now);
    if is_late {
        let text = format!("{run} {step} #{attempt} is performed {} ms after a heartbeat", silence.as_millis());
        ledger.violation(text);
    }
}

#[async_trait]
impl Handler for Act {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn check(&self, _config: &Value) -> Vec<Fault> {
        Vec::new()
    }

    async fn perform(&self, task: Task) -> TaskResult {
        watch(&self.store, &task);
        let executor = &self.store.executor;
        let is_calm = self.store.ledger().is_calm;
        let (luck, millis) = executor.with_random(|random| (random.below(100), random.between(0, self.longest)));
        match luck {
            0..40 => executor.waver().await,
            40..97 => executor.sleep(Duration::from_millis(millis)).await,
            // Longer than its timeout.
            _ => executor.sleep(if is_calm { Duration::from_secs(1) } else { self.timeout * 3 / 2 }).await,
        }
        let result = match executor.with_random(|random| random.below(100)) {
            0..70 => Ok(Outcome::from_output(json!({"step": task.step.as_str()}))),
            70..92 => Err(Failure::transient("UNLUCKY", "try again")),
            92 if !is_calm => Ok(Outcome::from_output(json!({"step": POISON}))),
            93..97 if !is_calm => Err(Failure::fatal("BROKEN", "do not try again")),
            _ => Ok(Outcome::default()),
        };
        let attempt = (task.run, task.step.clone(), task.attempt);
        let input = Input::Result { step: task.step, attempt: task.attempt, result: result.clone(), logs: Vec::new() };
        let mut ledger = self.store.ledger();
        if result.is_err() {
            ledger.failed.insert(attempt);
        }
        ledger.results.push((task.run, input));
        result.into()
    }
}

/// The task kind of the other workspaces: it takes time, holds one of few places, and succeeds.
pub(super) struct Rest {
    description: Description,
    store: SimStore,
}

/// The kind of [`Rest`].
pub(super) const REST: &str = "rest";

impl Rest {
    pub(super) fn new(store: SimStore) -> Self {
        let info = KindInfo { name: REST.into(), timeout_seconds: 3_600, ..KindInfo::default() };
        let description = Description {
            info,
            title: "Rest",
            group: "Test",
            icon: "zap",
            summary: "Takes time.",
            output: "Nothing.",
            schema: Schema::built_in(&json!({})),
            examples: Vec::new(),
            is_internal: true,
            concurrency: 3,
        };
        Self { description, store }
    }
}

#[async_trait]
impl Handler for Rest {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn check(&self, _config: &Value) -> Vec<Fault> {
        Vec::new()
    }

    async fn perform(&self, task: Task) -> TaskResult {
        watch(&self.store, &task);
        let millis = self.store.executor.with_random(|random| random.between(50, 800));
        self.store.executor.sleep(Duration::from_millis(millis)).await;
        TaskResult::from(Ok(Outcome::default()))
    }
}
