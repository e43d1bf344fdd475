//! Forks: a client repeats its request until it is answered.

use std::sync::Arc;

use everstep_core::actor::Actor;
use everstep_core::ids::{RunId, WorkspaceId};
use everstep_engine::{Error, Fork, ForkError};

use super::client::Client;
use super::ledger::Ledger;
use super::random::SeededRng;

/// Forks of a simulation.
const FORKS_MAX: usize = 3;

/// A fork that was requested: its id and the seq of its last copied entry, once they are known.
pub(super) type Forked = Option<(RunId, u64)>;

impl Client {
    /// Forks a run at an entry or at its last one, and repeats the request until it is answered.
    pub(super) async fn fork(self, run: RunId, at: Option<u64>) {
        let key = {
            let mut ledger = self.judge.store.ledger();
            if ledger.is_calm || ledger.forks.len() >= FORKS_MAX {
                return;
            }
            let key = format!("fork-{}", self.executor.with_random(SeededRng::number));
            ledger.forks.insert(key.clone(), None);
            key
        };
        loop {
            let asked: Arc<str> = key.as_str().into();
            let by = Some(Actor::person("forker"));
            let forked = self.server().ask(|engine| async move {
                engine.fork(WorkspaceId::DEFAULT, run, Fork { at, key: Some(&asked), by, ..Fork::default() }).await
            });
            let forked = forked.await;
            self.executor.note(|| format!("{run} is forked: {forked:?}"));
            let mut ledger = self.judge.store.ledger();
            match forked {
                Some(Ok(forked)) => {
                    ledger.forks.insert(key, Some((forked.run, forked.at)));
                    return;
                }
                Some(Err(ForkError::Ended { .. } | ForkError::NoEntry { .. })) => {
                    ledger.forks.remove(&key);
                    return;
                }
                Some(Err(ForkError::Unreadable { seq })) => {
                    return ledger.violation(format!("{run}: entry {seq} cannot be read"));
                }
                Some(Err(ForkError::Engine(Error::RunNotFound(_)))) => {
                    return ledger.violation(format!("{run} exists and cannot be forked"));
                }
                Some(Err(ForkError::Engine(_))) | None => {}
            }
            drop(ledger);
            self.sleep(1, 500).await;
        }
    }
}

impl Ledger {
    /// The seq of the last entry that a run has copied from another; 0 if it is not a fork.
    pub(super) fn copied(&self, run: RunId) -> u64 {
        self.forks.values().flatten().find(|(fork, _)| *fork == run).map_or(0, |(_, at)| *at)
    }
}
