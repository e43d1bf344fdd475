//! Forks: a new run that goes on from what another was after one of its entries.
//!
//! The entries are copied as they are, up to the end of an item; what was open is found open by whoever claims the new
//! run. What the original did to the world stays done, and is told.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use everstep_core::codec;
use everstep_core::event::{Dispatch, Event};
use everstep_core::ids::{RunId, StepKey, WorkspaceId};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use sha2::{Digest, Sha256};

use crate::engine::Engine;
use crate::error::Error;
use crate::message::ToClaimer;

/// Entries that are read at once.
const PAGE: usize = 1_000;
/// Children and steps that are told at most.
const MOST: usize = 1_000;

/// A run that was forked.
#[derive(Clone, Debug, PartialEq)]
pub struct Forked {
    pub run: RunId,
    /// False when a fork with the same key was there before.
    pub created: bool,
    /// The seq of the last entry that both runs share.
    pub at: u64,
    /// The runs that the original has started. None of them is the fork's.
    pub children: Vec<(StepKey, RunId)>,
    /// Steps that the original has begun and that the fork performs again, or may.
    pub repeated: Vec<StepKey>,
}

/// Why a run cannot be forked there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unforkable {
    /// The run has no such entry; its last one has this seq.
    NoEntry { last: u64 },
    /// The run was over by then. The seq up to which it was not, if there is any.
    Ended { usable: Option<u64> },
    /// This build cannot read the entry of this seq.
    Unreadable { seq: u64 },
}

impl Engine {
    /// Makes a new run of the entries of another, up to the end of the item that holds `at`: without `at` as far as
    /// the run was not over. The same key again is the same fork.
    pub async fn fork(
        &self,
        workspace: WorkspaceId,
        source: RunId,
        at: Option<u64>,
        key: Option<&str>,
    ) -> Result<Result<Forked, Unforkable>, Error> {
        let store = &self.world().store;
        let row = store.get_run(workspace, source).await?.ok_or(Error::RunNotFound(source))?;
        let past = match self.read_past(source).await? {
            Ok(past) => past,
            Err(reason) => return Ok(Err(reason)),
        };
        let at = match past.find(at) {
            Ok(at) => at,
            Err(reason) => return Ok(Err(reason)),
        };
        let now = self.world().clock.now();
        let run = match key {
            Some(key) => keyed_id(source, key),
            None => RunId::new(now, self.world().random.next()),
        };
        let mut forked = Forked {
            run,
            created: true,
            at,
            children: past.children.iter().take(MOST).cloned().collect(),
            repeated: past.repeated(at),
        };
        if key.is_some() && store.get_run(workspace, run).await?.is_some() {
            forked.created = false;
            return Ok(Ok(forked));
        }
        match store.fork_run(workspace, source, at, run, now).await {
            Ok(Some(copied)) => forked.at = copied,
            Ok(None) => return Err(Error::RunNotFound(source)),
            // Two forks with one key at once: one is refused, for the run is there.
            Err(error) if key.is_some() => match store.get_run(workspace, run).await? {
                Some(_) => forked.created = false,
                None => return Err(error.into()),
            },
            Err(error) => return Err(error.into()),
        }
        if forked.created {
            self.forked(workspace, &row.workflow, row.is_test);
        }
        Ok(Ok(forked))
    }

    async fn read_past(&self, run: RunId) -> Result<Result<Past, Unforkable>, Error> {
        let mut past = Past::default();
        loop {
            let page = self.world().store.journal(run, past.last, PAGE).await?;
            let is_last = page.len() < PAGE;
            for stored in page {
                let is_head = stored.commit.is_some();
                let seq = stored.seq;
                match codec::decode(seq, stored.at, stored.row) {
                    Ok(entry) => past.take(seq, is_head, &entry.event),
                    Err(_) => return Ok(Err(Unforkable::Unreadable { seq })),
                }
            }
            if is_last {
                past.close();
                return Ok(Ok(past));
            }
        }
    }

    /// A run was written that nobody owns and that is due.
    fn forked(&self, workspace: WorkspaceId, workflow: &str, is_test: bool) {
        if !is_test {
            self.tally().change(workspace, workflow, None, Status::Running);
        }
        let member = self.member();
        member.shared.has_backlog.store(true, Ordering::SeqCst);
        let _ = member.claimer.send(ToClaimer::Room);
    }
}

/// The id of the fork that has a key. It is of the original's time: where its journal is there is room for another.
fn keyed_id(source: RunId, key: &str) -> RunId {
    let mut hash = Sha256::new();
    hash.update(source.uuid().as_bytes());
    hash.update(key.as_bytes());
    let bytes: [u8; 16] = hash.finalize()[..16].try_into().expect("a hash has 32 bytes");
    let millis = i64::try_from(source.uuid().as_u128() >> 80).expect("a time has 48 bits");
    RunId::new(Timestamp::from_millis(millis), u128::from_be_bytes(bytes))
}

/// What a journal says that a fork must know.
#[derive(Default)]
struct Past {
    last: u64,
    has_ended: bool,
    /// The seqs at which items end, and whether the run was over then.
    items: Vec<(u64, bool)>,
    children: Vec<(StepKey, RunId)>,
    /// What handlers were given, with the seq of the dispatch and that of its end.
    tasks: Vec<(StepKey, u64, u64)>,
    open: std::collections::BTreeMap<StepKey, usize>,
}

impl Past {
    fn take(&mut self, seq: u64, is_head: bool, event: &Event) {
        if is_head && self.last > 0 {
            self.items.push((self.last, self.has_ended));
        }
        self.last = seq;
        match event {
            Event::RunCompleted { .. } | Event::RunFailed { .. } | Event::RunCancelled { .. } => self.has_ended = true,
            Event::RunRetried => self.has_ended = false,
            Event::StepDispatched { step, dispatch: Dispatch::Child(child), .. } => {
                self.children.push((step.clone(), child.run));
            }
            Event::StepDispatched { step, dispatch: Dispatch::Task, .. } => {
                self.open.insert(step.clone(), self.tasks.len());
                self.tasks.push((step.clone(), seq, u64::MAX));
            }
            Event::StepCompleted { step, .. } | Event::StepFailed { step, .. } => {
                if let Some(task) = self.open.remove(step) {
                    self.tasks[task].2 = seq;
                }
            }
            Event::StepDispatched { .. }
            | Event::RunStarted { .. }
            | Event::StepSkipped { .. }
            | Event::TimerSet { .. }
            | Event::TimerFired { .. }
            | Event::ContextSet { .. }
            | Event::RunPaused { .. }
            | Event::RunResumed => {}
        }
    }

    fn close(&mut self) {
        self.items.push((self.last, self.has_ended));
    }

    /// The end of the item that holds an entry, or of the last one before the run was over.
    fn find(&self, at: Option<u64>) -> Result<u64, Unforkable> {
        let usable = || self.items.iter().rev().find(|(_, has_ended)| !has_ended).map(|(seq, _)| *seq);
        let Some(at) = at else { return usable().ok_or(Unforkable::Ended { usable: None }) };
        match self.items.iter().find(|(seq, _)| *seq >= at) {
            Some((seq, false)) => Ok(*seq),
            Some((_, true)) => Err(Unforkable::Ended { usable: usable() }),
            None => Err(Unforkable::NoEntry { last: self.last }),
        }
    }

    /// The steps that were under way at an entry, or that handlers were given after it.
    fn repeated(&self, at: u64) -> Vec<StepKey> {
        let tasks = self.tasks.iter().filter(|(_, _, ended)| *ended > at);
        let steps: BTreeSet<_> = tasks.map(|(step, ..)| step.clone()).collect();
        steps.into_iter().take(MOST).collect()
    }
}

#[cfg(test)]
mod tests {
    use everstep_core::payload::Payload;

    use super::*;

    fn past() -> Past {
        let mut past = Past::default();
        let step = || StepKey::from("a");
        past.take(1, true, &Event::RunStarted { input: Payload::null(), parent: None, definition: None });
        past.take(2, false, &Event::StepDispatched { step: step(), attempt: 1, dispatch: Dispatch::Task });
        past.take(3, true, &Event::StepCompleted { step: step(), attempt: 1, outcome: Default::default() });
        past.take(4, false, &Event::RunCompleted { output: Payload::null() });
        past.close();
        past
    }

    #[test]
    fn a_fork_ends_where_an_item_does() {
        assert_eq!(past().find(Some(1)), Ok(2));
        assert_eq!(past().find(Some(2)), Ok(2));
        assert_eq!(past().find(None), Ok(2));
        assert_eq!(past().find(Some(3)), Err(Unforkable::Ended { usable: Some(2) }));
        assert_eq!(past().find(Some(9)), Err(Unforkable::NoEntry { last: 4 }));
        assert_eq!(past().repeated(2), ["a".into()]);
        assert!(past().repeated(4).is_empty());
    }

    #[test]
    fn a_key_makes_one_fork_of_each_run() {
        let run = |n| RunId::new(Timestamp::from_millis(1_700_000_000_000), n);
        assert_eq!(keyed_id(run(1), "k"), keyed_id(run(1), "k"));
        assert_ne!(keyed_id(run(1), "k"), keyed_id(run(2), "k"));
        assert_ne!(keyed_id(run(1), "k"), keyed_id(run(1), "l"));
        assert_eq!(keyed_id(run(1), "k").uuid().as_u128() >> 80, 1_700_000_000_000);
    }
}
