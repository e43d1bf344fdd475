//! The acting kind of simulated workflows. It also watches the engine.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use everstep_core::evaluate::Fault;
use everstep_core::event::{Kind, Outcome};
use everstep_core::failure::Failure;
use everstep_core::input::Input;
use everstep_core::kinds::KindInfo;
use everstep_handlers::{Description, Handler, Report, Task};
use serde_json::{Value, json};

use super::process::Ledger;
use super::store::{POISON, SimStore};

pub(super) struct Act {
    description: Description,
    store: SimStore,
    ledger: Arc<Mutex<Ledger>>,
}

impl Act {
    pub(super) fn new(store: SimStore) -> Self {
        let info = KindInfo {
            name: "act".into(),
            output_variable: Some("acted".into()),
            timeout_seconds: 20,
            ..KindInfo::default()
        };
        let description = Description {
            info,
            title: "Act",
            group: "Test",
            summary: "Does something that takes time and may fail.",
            schema: json!({}),
            concurrency: 3,
        };
        let ledger = Arc::clone(&store.ledger);
        Self { description, store, ledger }
    }

    /// A task is performed only after its dispatch is durable, and never twice under one attempt.
    fn watch(&self, task: &Task) {
        let journal = self.store.direct(|db| db.journal(task.run, 0, 100_000)).unwrap_or_default();
        let is_durable = journal.iter().any(|entry| {
            entry.row.kind == Kind::StepDispatched
                && entry.row.step.as_ref() == Some(&task.step)
                && entry.row.attempt == task.attempt
        });
        let mut ledger = self.ledger.lock().expect("one thread");
        let (run, step, attempt) = (task.run, &task.step, task.attempt);
        if !is_durable {
            ledger.violations.push(format!("{run} {step} #{attempt} is performed before its dispatch is durable"));
        }
        if !ledger.performed.insert((run, step.clone(), attempt)) {
            ledger.violations.push(format!("{run} {step} #{attempt} is performed twice"));
        }
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

    async fn perform(&self, task: Task) -> Report {
        self.watch(&task);
        let executor = &self.store.executor;
        let is_calm = self.ledger.lock().expect("one thread").is_calm;
        let (luck, millis) = executor.with_random(|random| (random.below(100), random.between(0, 3_000)));
        match luck {
            0..40 => executor.waver().await,
            40..97 => executor.sleep(Duration::from_millis(millis)).await,
            // Longer than its timeout.
            _ => executor.sleep(Duration::from_secs(if is_calm { 1 } else { 30 })).await,
        }
        let result = match executor.with_random(|random| random.below(100)) {
            0..70 => Ok(Outcome::of(json!({"step": task.step.as_str()}))),
            70..92 => Err(Failure::transient("UNLUCKY", "try again")),
            92 if !is_calm => Ok(Outcome::of(json!({"step": POISON}))),
            93..97 if !is_calm => Err(Failure::fatal("BROKEN", "do not try again")),
            _ => Ok(Outcome::default()),
        };
        let input = Input::Result { step: task.step, attempt: task.attempt, result: result.clone(), logs: Vec::new() };
        self.ledger.lock().expect("one thread").results.push((task.run, input));
        result.into()
    }
}
