//! Forks: a new run that continues from the state of another run after one of its entries.
//!
//! The entries are copied unchanged, up to the end of an item; only the cause in the first one gets the actor who forks.
//! The node that claims the new run finds the open steps and performs them again. External effects of the original run
//! are not undone; the reply lists them.

use std::collections::BTreeSet;
use std::sync::Arc;

use everstep_core::actor::Actor;
use everstep_core::ids::{CommitId, RunId, StepKey, WorkspaceId};
use everstep_core::journal::{Dispatch, Entry, Event, codec};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_core::workflow::Workflow;
use everstep_store::{ForkOrigin, NewFork, RunRow, SideWrites};
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

use crate::engine::Engine;
use crate::error::Error;
use crate::feed::StatusUpdate;
use crate::message::ToClaimer;
use crate::upkeep::counts::Change;

const READ_BATCH_ENTRIES: usize = 1_000;
/// The maximum number of children, and of steps, in the reply.
const LISTED_MAX: usize = 1_000;

/// A request to fork a run.
#[derive(Clone, Debug, Default)]
pub struct Fork<'a> {
    /// An entry of the last item that the fork shares.
    pub at: Option<u64>,
    /// The idempotency key of the request.
    pub key: Option<&'a str>,
    /// The person or the program that forks the run. For the requirements of a machine it is a starter of the fork.
    pub by: Option<Actor>,
    /// They exist with a fork that is created.
    pub side: SideWrites,
}

/// A forked run.
#[derive(Clone, Debug, PartialEq)]
pub struct ForkedRun {
    pub run: RunId,
    /// False if a fork with the same key already existed.
    pub created: bool,
    /// The seq of the last entry that both runs share.
    pub at: u64,
    /// The runs that the original has started. The fork does not share them.
    pub children: Vec<(StepKey, RunId)>,
    /// Steps that the original has begun and that the fork may perform again.
    pub repeated: Vec<StepKey>,
    /// Those of them that write records or links. The fork does not undo the writes of the original.
    pub writes: Vec<StepKey>,
}

/// Why a run cannot be forked there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForkError {
    /// The run has no such entry; its last one has this seq.
    NoEntry { last: u64 },
    /// The run had ended by then. The last seq at which it had not ended, if there is one.
    Ended { usable: Option<u64> },
    /// This build cannot read the entry of this seq.
    Unreadable { seq: u64 },
    /// The engine could not do it.
    Engine(Error),
}

impl From<Error> for ForkError {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl From<everstep_store::Error> for ForkError {
    fn from(error: everstep_store::Error) -> Self {
        Self::Engine(error.into())
    }
}

impl Engine {
    /// Creates a run from the entries of another, up to the end of the item that contains `at`; without `at`, up to the
    /// last item before the run ended. A repeated key returns the same fork.
    pub async fn fork(&self, workspace: WorkspaceId, source: RunId, fork: Fork<'_>) -> Result<ForkedRun, ForkError> {
        let Fork { at, key, by, side } = fork;
        let store = &self.world().runs;
        let row = store.get_run(workspace, source).await?.ok_or(Error::RunNotFound(source))?;
        if row.seq == 0 {
            return Err(Error::NotBegun(source).into());
        }
        let mut past = self.read_past(source).await?;
        past.workflow = self.library().of_run(&row).await.ok();
        let now = self.world().clock.now();
        let run = match key {
            Some(key) => keyed_id(source, key),
            None => RunId::new(now, self.world().random.next()),
        };
        if key.is_some() && store.get_run(workspace, run).await?.is_some() {
            return self.found(run, &past).await;
        }
        let at = past.find(at)?;
        let first_payload = by.and_then(|by| past.first_payload(by));
        // The attributes are those that the workflow declares now.
        let found = self.library().find(workspace, &row.workflow, None).await.ok();
        let origin = ForkOrigin {
            workflow: row.workflow.clone(),
            input: row.input.clone(),
            tags: row.tags.clone(),
            search_paths: found.map(|version| Arc::clone(&version.search_paths)).unwrap_or_default(),
            is_test: row.is_test,
        };
        match self.write_fork(row, NewFork { run, at, now, first_payload, origin, side }).await {
            Ok(Some(at)) => Ok(past.forked(run, true, at)),
            Ok(None) => Err(Error::RunNotFound(source).into()),

            // Two forks with one key at the same time: the database rejects the second, because the run exists.
            Err(error) if key.is_some() => match store.get_run(workspace, run).await? {
                Some(_) => self.found(run, &past).await,
                None => Err(error.into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the new run, in a separate task: if the caller stops waiting, the run is still counted and claimed.
    async fn write_fork(&self, source: RunRow, fork: NewFork) -> Result<Option<u64>, Error> {
        let (reply, answer) = oneshot::channel();
        let (run, now) = (fork.run, fork.now);
        let engine = self.clone();
        self.world().spawn.spawn(Box::pin(async move {
            let copied = engine.world().runs.fork_run(source.workspace, source.id, fork).await;
            if let (Ok(Some(seq)), false) = (&copied, source.is_test) {
                let (workflow, status) = (source.workflow.clone(), Status::Running);
                engine.tally().change(
                    source.workspace,
                    &workflow,
                    Change { before: None, after: status, begins_at: Some(now), started_at: now, at: now },
                );
                let update = || StatusUpdate { run, workflow, status, created_at: now, ended_at: None, seq: *seq };
                engine.tally().feed.add_created(source.workspace, engine.world().clock.now(), update);
            }
            // The run is due and has no owner. It may have been written even if the database did not reply.
            let member = engine.member();
            let _ = member.claimer.send(ToClaimer::Room);
            let _ = reply.send(copied);
        }));
        Ok(answer.await.map_err(|_| Error::Stopping)??)
    }

    /// A fork that already existed. It shares the entries that were copied then, however far its original is by now.
    async fn found(&self, run: RunId, past: &Past) -> Result<ForkedRun, ForkError> {
        let fork = self.read_past(run).await?;
        Ok(past.forked(run, false, past.shared_with(&fork)))
    }

    async fn read_past(&self, run: RunId) -> Result<Past, ForkError> {
        let mut past = Past::default();
        loop {
            let batch = self.runs().read_batch(run, past.last, READ_BATCH_ENTRIES).await?;
            let is_last = batch.len() < READ_BATCH_ENTRIES;
            for journal in batch {
                match journal.entry {
                    Ok(entry) => {
                        past.apply(journal.seq, journal.commit, &entry.event);
                        past.first.get_or_insert(entry);
                    }
                    Err(_) => return Err(ForkError::Unreadable { seq: journal.seq }),
                }
            }
            if is_last {
                past.close();
                return Ok(past);
            }
        }
    }
}

/// The id of the fork that has a key. It contains the original's time, so that both journals are in one partition.
fn keyed_id(source: RunId, key: &str) -> RunId {
    let mut hash = Sha256::new();
    hash.update(source.uuid().as_bytes());
    hash.update(key.as_bytes());
    let bytes: [u8; 16] = hash.finalize()[..16].try_into().expect("a hash has 32 bytes");
    let millis = i64::try_from(source.uuid().as_u128() >> 80).expect("a time has 48 bits");
    RunId::new(Timestamp::from_millis(millis), u128::from_be_bytes(bytes))
}

/// The facts about the journal of its original that a fork needs.
#[derive(Default)]
struct Past {
    /// The first entry, which contains the cause of the run.
    first: Option<Entry>,
    last: u64,
    has_ended: bool,
    /// The seqs at which items end, and whether the run had ended then.
    items: Vec<(u64, bool)>,
    /// The seqs at which items begin, with their commit ids.
    heads: Vec<(u64, CommitId)>,
    children: Vec<(StepKey, RunId)>,
    /// Work of handlers and workers, with the seqs of its dispatch and of its end. For a worker both are one entry.
    tasks: Vec<(StepKey, u64, u64)>,
    open: std::collections::BTreeMap<StepKey, usize>,
    /// The workflow, if this build can read it.
    workflow: Option<Arc<Workflow>>,
    /// Steps that were ever dispatched. The steps of a worker never are.
    dispatched: BTreeSet<StepKey>,
    /// Those of them that are side effects of a machine.
    deliveries: BTreeSet<StepKey>,
}

impl Past {
    fn apply(&mut self, seq: u64, commit: Option<CommitId>, event: &Event) {
        if commit.is_some() && self.last > 0 {
            self.items.push((self.last, self.has_ended));
        }
        self.heads.extend(commit.map(|commit| (seq, commit)));
        self.last = seq;
        match event {
            Event::RunCompleted { .. } | Event::RunFailed { .. } | Event::RunCancelled { .. } => self.has_ended = true,
            Event::RunRetried => self.has_ended = false,
            // A fork performs none of the deliveries of its original.
            Event::StepDispatched { step, dispatch: Dispatch::Delivery(delivery), .. } => {
                if !delivery.is_task() {
                    self.children.push((step.clone(), RunId::from_uuid(delivery.id.uuid())));
                }
                self.dispatched.insert(step.clone());
                self.deliveries.insert(step.clone());
            }
            Event::StepDispatched { step, .. } if self.deliveries.contains(step) => {}
            Event::StepDispatched { step, dispatch: Dispatch::Child(child), .. } => {
                self.dispatched.insert(step.clone());
                self.children.push((step.clone(), child.run));
            }
            Event::StepDispatched { step, dispatch: Dispatch::Task, .. } => {
                self.dispatched.insert(step.clone());
                self.open.insert(step.clone(), self.tasks.len());
                self.tasks.push((step.clone(), seq, u64::MAX));
            }
            Event::StepCompleted { step, .. } | Event::StepFailed { step, .. } => match self.open.remove(step) {
                Some(task) => self.tasks[task].2 = seq,
                None if self.dispatched.contains(step) => {}
                None => self.tasks.push((step.clone(), seq, seq)),
            },
            Event::StepDispatched { step, .. } => {
                self.dispatched.insert(step.clone());
            }
            Event::RunStarted { .. }
            | Event::StepSkipped { .. }
            | Event::TimerSet { .. }
            | Event::TimerFired { .. }
            | Event::WaitOpened { .. }
            | Event::WaitResolved { .. }
            | Event::SignalBuffered { .. }
            | Event::TurnStarted { .. }
            | Event::TurnLost { .. }
            | Event::TransitionApplied(_)
            | Event::VoteCast(_)
            | Event::Assigned(_)
            | Event::ContextSet { .. }
            | Event::RunPaused { .. }
            | Event::RunResumed => {}
        }
    }

    /// The payload of the first entry of a fork by an actor; none if it is that of the original.
    fn first_payload(&self, by: Actor) -> Option<Vec<u8>> {
        let first = self.first.as_ref()?;
        let Event::RunStarted { input, cause, definition } = &first.event else { return None };
        let forked = cause.clone().unwrap_or_default().forked(by);
        if cause.as_ref() == Some(&forked) {
            return None;
        }
        let (input, cause, definition) = (input.clone(), Some(forked), definition.clone());
        let event = Event::RunStarted { input, cause, definition };
        Some(codec::encode(&Entry { event, ..first.clone() }).payload)
    }

    fn close(&mut self) {
        self.items.push((self.last, self.has_ended));
    }

    /// The end of the item that contains an entry, or of the last item before the run ended.
    fn find(&self, at: Option<u64>) -> Result<u64, ForkError> {
        let usable = || self.items.iter().rev().find(|(_, has_ended)| !has_ended).map(|(seq, _)| *seq);
        let Some(at) = at else { return usable().ok_or(ForkError::Ended { usable: None }) };
        match self.items.iter().find(|(seq, _)| at > 0 && *seq >= at) {
            Some((seq, false)) => Ok(*seq),
            Some((_, true)) => Err(ForkError::Ended { usable: usable() }),
            None => Err(ForkError::NoEntry { last: self.last }),
        }
    }

    /// The last entry that a fork shares with this run: its own items have other commit ids.
    fn shared_with(&self, fork: &Self) -> u64 {
        let own = fork.heads.iter().enumerate().find(|(index, head)| self.heads.get(*index) != Some(*head));
        own.map_or(fork.last, |(_, (seq, _))| seq - 1)
    }

    fn forked(&self, run: RunId, created: bool, at: u64) -> ForkedRun {
        let children = self.children.iter().take(LISTED_MAX).cloned().collect();
        let repeated = self.repeated(at);
        let writes = repeated.iter().filter(|step| self.writes_records(step)).take(LISTED_MAX).cloned().collect();
        ForkedRun { run, created, at, children, repeated: repeated.into_iter().take(LISTED_MAX).collect(), writes }
    }

    fn writes_records(&self, step: &StepKey) -> bool {
        self.workflow.as_ref().is_some_and(|workflow| workflow.style.writes_records(step))
    }

    /// The steps that were in progress at an entry, or were performed after it.
    fn repeated(&self, at: u64) -> BTreeSet<StepKey> {
        let tasks = self.tasks.iter().filter(|(_, _, ended)| *ended > at);
        tasks.map(|(step, ..)| step.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use everstep_core::failure::Failure;
    use everstep_core::payload::Payload;

    use super::*;

    fn named(commit: u128) -> CommitId {
        CommitId::new(Timestamp::EPOCH, commit)
    }

    fn past() -> Past {
        let mut past = Past::default();
        let step = || StepKey::from("a");
        past.apply(1, Some(named(1)), &Event::RunStarted { input: Payload::null(), cause: None, definition: None });
        past.apply(2, None, &Event::StepDispatched { step: step(), attempt: 1, dispatch: Dispatch::Task });
        past.apply(3, Some(named(2)), &Event::StepCompleted { step: step(), attempt: 1, outcome: Default::default() });
        past.apply(4, None, &Event::run_completed(Payload::null()));
        past.close();
        past
    }

    #[test]
    fn a_fork_ends_where_an_item_does() {
        assert_eq!(past().find(Some(1)), Ok(2));
        assert_eq!(past().find(Some(2)), Ok(2));
        assert_eq!(past().find(None), Ok(2));
        assert_eq!(past().find(Some(3)), Err(ForkError::Ended { usable: Some(2) }));
        assert_eq!(past().find(Some(9)), Err(ForkError::NoEntry { last: 4 }));
        assert_eq!(past().find(Some(0)), Err(ForkError::NoEntry { last: 4 }));
        assert_eq!(past().repeated(2), BTreeSet::from(["a".into()]));
        assert!(past().repeated(4).is_empty());
    }

    #[test]
    fn a_fork_performs_again_what_workers_did_after_it() {
        let mut past = Past::default();
        let completed =
            |step: &str| Event::StepCompleted { step: step.into(), attempt: 1, outcome: Default::default() };
        let failed = |step: &str| Event::failed(step.into(), 1, Failure::fatal("X", "no"));
        past.apply(1, Some(named(1)), &Event::RunStarted { input: Payload::null(), cause: None, definition: None });
        past.apply(2, Some(named(2)), &completed("reserve"));
        past.apply(3, Some(named(3)), &completed("charge"));
        past.apply(4, Some(named(4)), &failed("ship"));
        // No worker performs a call, or a call that was rejected.
        past.apply(
            5,
            Some(named(5)),
            &Event::StepDispatched { step: "call".into(), attempt: 1, dispatch: Dispatch::Instant },
        );
        past.apply(6, None, &failed("call"));
        past.close();
        assert_eq!(past.repeated(2), BTreeSet::from(["charge".into(), "ship".into()]));
        assert_eq!(past.repeated(3), BTreeSet::from(["ship".into()]));
        assert!(past.repeated(6).is_empty());
    }

    #[test]
    fn a_fork_shares_the_items_that_it_was_given() {
        let mut fork = Past { last: 2, heads: vec![(1, named(1))], ..Past::default() };
        assert_eq!(past().shared_with(&fork), 2);
        fork.apply(3, Some(named(9)), &Event::RunPaused { reason: None });
        assert_eq!(past().shared_with(&fork), 2);
        assert_eq!(past().shared_with(&past()), 4);
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
