//! Programs that write records through any server, under keys, again while the outcome is not known. They also fork
//! runs.

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::payload::Payload;
use everstep_core::records::{Author, IncrementRequest, NewOp, OpAction, OpKey, SetRequest};
use everstep_engine::Error;
use everstep_store::OpOutcome;
use serde_json::json;

use super::client::Client;
use super::executor::OUTSIDE;
use super::ledger::{Fate, Ledger};
use super::ops::{COUNTERS, VALUES};

/// The name of the caller in the keys of its ops.
const CALLER: &str = "sim";

/// A request to write a record, and the replies to it.
#[derive(Clone)]
pub(super) struct StoreCall {
    namespace: &'static str,
    action: OpAction,
    /// How often it was sent, and how often the reply was that nothing was written.
    sent: usize,
    denied: usize,
    /// The first answer.
    pub(super) answer: Option<Payload>,
}

impl StoreCall {
    /// What its replies say about its op.
    pub(super) fn fate(&self) -> Fate {
        match &self.answer {
            Some(_) => Fate::Accepted,
            None if self.denied == self.sent => Fate::Nothing,
            // One of the requests may still arrive.
            None => Fate::Unknown,
        }
    }
}

/// The key of a request's op.
pub(super) fn op_key(number: u64) -> OpKey {
    OpKey::of_caller(CALLER, &number.to_string())
}

impl Client {
    /// Writes records and forks runs until the storm ends.
    pub(super) async fn write_records(self) {
        let slowest = if self.judge.store.ledger().is_shared { 1_500 } else { 4_000 };
        loop {
            self.sleep(20, slowest).await;
            let (runs, is_calm) = {
                let ledger = self.judge.store.ledger();
                let runs: Vec<RunId> = ledger.started.values().copied().collect();
                (runs, ledger.is_calm)
            };
            if is_calm {
                return;
            }
            if runs.is_empty() || self.executor.chance(75) {
                self.executor.spawn(OUTSIDE, self.clone().call());
                continue;
            }
            let run = self.executor.with_random(|random| *random.pick(&runs));
            let at = self.executor.with_random(|random| random.chance(50).then(|| random.between(1, 12)));
            if self.judge.is_graph(run) {
                self.executor.spawn(OUTSIDE, self.clone().fork(run, at));
            }
        }
    }

    /// Sends one request, again while its outcome is not known, and sometimes after that.
    async fn call(self) {
        let (number, times, (namespace, action)) = self.executor.with_random(|random| {
            let action = if random.chance(50) {
                let key = (*random.pick(&["a", "b"])).to_owned();
                (
                    COUNTERS,
                    OpAction::Increment(IncrementRequest { key, by: 1.into(), initial: 0.into(), ttl_seconds: None }),
                )
            } else {
                let key = *random.pick(&["x", "y"]);
                let ttl_seconds = random.chance(50).then(|| random.between(1, 6));
                (VALUES, OpAction::Set(SetRequest { ttl_seconds, ..SetRequest::new(key, json!({"called": true})) }))
            };
            (random.number() >> 12, random.between(1, 3), action)
        });
        let call = StoreCall { namespace, action, sent: 0, denied: 0, answer: None };
        self.judge.store.ledger().calls.insert(number, call);
        for _ in 0..times {
            self.deliver_call(number).await;
            self.sleep(1, 500).await;
        }
    }

    async fn deliver_call(&self, number: u64) {
        let (namespace, action) = {
            let mut ledger = self.judge.store.ledger();
            let Some(call) = ledger.calls.get_mut(&number) else { return };
            call.sent += 1;
            (call.namespace.to_owned(), call.action.clone())
        };
        let op = NewOp {
            workspace: WorkspaceId::DEFAULT,
            namespace,
            key: Some(op_key(number)),
            author: Author { run: None, step: None, actor: format!("key:{CALLER}") },
            action,
        };
        let server = self.server();
        self.executor.note(|| format!("call {number} by server {}: {:?}", server.index, op.action));
        let reply = server.ask(|engine| async move { engine.records().apply(op).await }).await;
        self.executor.note(|| format!("call {number} by server {}: {reply:?}", server.index));
        self.judge.store.ledger().answer_call(number, reply);
    }
}

impl Ledger {
    /// Records the reply to a request. A repeated request is answered as before.
    fn answer_call(&mut self, number: u64, reply: Option<Result<OpOutcome, Error>>) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        let mut violation = None;
        match reply {
            Some(Ok(Ok(output))) => match &call.answer {
                Some(first) if first.value() != output.value() => {
                    violation = Some(format!("call {number} was answered {first:?}, then {output:?}"));
                }
                Some(_) => {}
                None => call.answer = Some(output),
            },
            Some(Ok(Err(failure))) => violation = Some(format!("call {number} failed: {failure:?}")),
            // Nothing was written.
            Some(Err(Error::Full(_) | Error::Busy(_) | Error::Stopping)) => call.denied += 1,
            Some(Err(_)) | None => {}
        }
        if let Some(text) = violation {
            self.violation(text);
        }
    }
}
