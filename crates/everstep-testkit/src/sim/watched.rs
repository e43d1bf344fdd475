//! Handlers of the product, observed: those that read and write records and links.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everstep_core::evaluate::Fault;
use everstep_core::run::Input;
use everstep_handlers::{Description, Handler, Task, TaskResult};
use serde_json::Value;

use super::handlers::watch;
use super::store::SimStore;

pub(super) struct Watched {
    handler: Arc<dyn Handler>,
    store: SimStore,
}

impl Watched {
    pub(super) fn new(handler: Arc<dyn Handler>, store: SimStore) -> Self {
        Self { handler, store }
    }

    /// A handler may be slow, before its work and after it.
    async fn dawdle(&self) {
        let executor = &self.store.executor;
        executor.waver().await;
        if executor.chance(10) {
            let millis = executor.with_random(|random| random.between(1, 1_500));
            executor.sleep(Duration::from_millis(millis)).await;
        }
    }
}

#[async_trait]
impl Handler for Watched {
    fn describe(&self) -> &Description {
        self.handler.describe()
    }

    fn check(&self, config: &Value) -> Vec<Fault> {
        self.handler.check(config)
    }

    fn check_code(&self, config: &Value) -> Vec<Fault> {
        self.handler.check_code(config)
    }

    fn times_itself(&self) -> bool {
        self.handler.times_itself()
    }

    async fn perform(&self, task: Task) -> TaskResult {
        watch(&self.store, &task);
        let (run, step, attempt) = (task.run, task.step.clone(), task.attempt);
        self.dawdle().await;
        let result = self.handler.perform(task).await;
        self.dawdle().await;
        let mut ledger = self.store.ledger();
        if result.result.is_err() {
            ledger.failed.insert((run, step.clone(), attempt));
        }
        ledger.results.push((run, Input::Result { step, attempt, result: result.result.clone(), logs: Vec::new() }));
        result
    }
}
