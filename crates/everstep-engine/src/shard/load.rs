//! Loads runs into memory: claimed runs, and runs that an input is for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use everstep_core::failure::{Failure, code};
use everstep_core::ids::{NodeId, RunId};
use everstep_core::journal::FORMAT;
use everstep_core::planted::{self, Bug};
use everstep_store::StoredRun;

use super::Shard;
use super::message::{BeginningRun, LoadResult, ToShard};
use crate::error::Error;
use crate::message::ToClaimer;
use crate::node::peers::RunInput;
use crate::node::permits::RunPermit;
use crate::ports::World;
use crate::read::{Library, is_usable, read_until};
use crate::run::{ActiveRun, Envelope, FoldedRun, Loading, Ownership, ReplyTo, RunSlot};
use crate::workers::report_reply;

/// The pause before a run of this node that could not be loaded is loaded again.
const RELOAD_DELAY: Duration = Duration::from_secs(5);
/// The pause before a failed read is repeated.
const READ_RETRY_DELAY: Duration = Duration::from_millis(200);

impl Shard {
    /// This node has claimed a run.
    pub(super) fn claimed(&mut self, id: RunId, permit: RunPermit) {
        match self.runs.get_mut(&id) {
            None => self.load(id, Loading { permit: Some(permit), ..Loading::default() }),
            Some(RunSlot::Loading(loading)) => {
                loading.must_reload = true;
                loading.permit = Some(permit);
            }
            // The run is here as a guest, or is about to be parked, and was claimed before that was written. An owner
            // that stays was loaded after the claim and before this message: it already has a permit.
            Some(RunSlot::Active(run)) => {
                if run.ownership() == Ownership::Guest || run.is_leaving() {
                    run.set_claim(permit);
                }
                self.services.workers.arrived(id);
            }
        }
    }

    /// A run that this node owns in the database. If the run is not in memory as such, a statement whose reply was lost
    /// has claimed it.
    pub(super) fn owned(&mut self, id: RunId) {
        if self.unreadable.is_pausing(id) {
            return;
        }
        match self.runs.get_mut(&id) {
            None => {
                let permit = Some(self.services.permit());
                self.load(id, Loading { permit, ..Loading::default() });
            }
            Some(RunSlot::Loading(loading)) => {
                loading.must_reload = true;
                loading.permit.get_or_insert_with(|| self.services.permit());
            }
            Some(RunSlot::Active(run)) => {
                if (run.ownership() == Ownership::Guest || run.is_leaving()) && !run.has_claim() {
                    run.set_claim(self.services.permit());
                }
            }
        }
    }

    /// Begins a run that this node has created without a journal. Its row is known, so that it is not read.
    pub(super) fn begin(&mut self, run: BeginningRun) {
        let BeginningRun { loaded, workflow, permit } = run;
        let id = loaded.run.id;
        // An input may have reached the run before this message.
        if self.runs.contains_key(&id) && !planted::is_planted(Bug::PendingStartLoadedTwice) {
            return self.claimed(id, permit);
        }
        match self.services.library.fold(&loaded, &workflow) {
            Ok(state) => {
                let active = ActiveRun::from_state(&loaded, FoldedRun { workflow, state }, Ownership::Owner);
                self.take_over(id, active, Loading { permit: Some(permit), ..Loading::default() }, &loaded);
                self.services.workers.arrived(id);
            }
            Err(_) => self.claimed(id, permit),
        }
    }

    /// Reads a run's journal and folds it, in a separate task: the loop is free for other runs.
    pub(super) fn load(&mut self, id: RunId, mut loading: Loading) {
        for envelope in &mut loading.mailbox {
            envelope.is_late = false;
        }
        self.runs.insert(id, RunSlot::Loading(loading));
        let services = &self.services;
        let (world, library) = (services.world.clone(), Arc::clone(&services.library));
        let sender = services.sender().clone();
        services.world.spawn.spawn(Box::pin(async move {
            let loaded = load_run(&world, &library, id).await;
            let _ = sender.send(ToShard::Loaded(id, Box::new(loaded)));
        }));
    }

    /// Reads a run of this node again after a pause. It stays in its slot, so that it is not lost.
    fn load_later(&mut self, id: RunId, loading: Loading) {
        self.runs.insert(id, RunSlot::Loading(Loading { must_reload: true, ..loading }));
        let (world, sender) = (self.services.world.clone(), self.services.sender().clone());
        self.services.world.spawn.spawn(Box::pin(async move {
            world.sleep(RELOAD_DELAY).await;
            let _ = sender.send(ToShard::Loaded(id, Box::new(Err(Error::RunNotFound(id)))));
        }));
    }

    pub(super) fn loaded(&mut self, id: RunId, loaded: LoadResult) {
        self.take_loaded(id, loaded);
        self.services.workers.arrived(id);
    }

    fn take_loaded(&mut self, id: RunId, loaded: LoadResult) {
        let Some(RunSlot::Loading(_)) = self.runs.get(&id) else { return };
        let Some(RunSlot::Loading(mut loading)) = self.runs.remove(&id) else { return };
        if loading.must_reload {
            self.load(id, Loading { must_reload: false, ..loading });
            return;
        }
        let (loaded, folded) = match loaded {
            Ok(loaded) => loaded,
            Err(error) => {
                if matches!(error, Error::RunNotFound(_)) {
                    // Any caller may request a run that never existed.
                    tracing::debug!(run = %id, "a run was not found");
                    return self.give_up(id, loading, &error);
                }
                tracing::error!(run = %id, %error, "a run cannot be loaded");
                if loading.permit.is_some() {
                    return self.load_later(id, loading);
                }
                return self.give_up(id, loading, &error);
            }
        };
        let ownership = match loaded.run.owner {
            Some(owner) if owner == self.services.node => Ownership::Owner,
            None => {
                // If an unknown outcome was that this node parked it, the claimer was not notified of its wake time.
                let lane = loaded.run.lane.as_str().into();
                let _ = self.services.claimer.send(ToClaimer::Parked(lane, loaded.run.wake_at));
                Ownership::Guest
            }
            Some(owner) => {
                refuse_foreign_reports(&mut loading, &loaded);
                return self.give_up(id, loading, &Error::Elsewhere(owner));
            }
        };
        if ownership == Ownership::Guest && loaded.run.format > FORMAT {
            let newer = format!("run {id} was written by a newer release; send the request to a node of that release");
            return self.give_up(id, loading, &Error::Busy(newer));
        }
        match folded {
            Ok(folded) => self.take_over(id, ActiveRun::from_state(&loaded, folded, ownership), loading, &loaded),
            Err(failure) if !loaded.has_begun() => self.fail_unstartable(&loaded, loading, &failure),
            Err(failure) => self.pause_unreadable(loaded, loading, failure),
        }
    }

    fn take_over(&mut self, id: RunId, mut run: ActiveRun, loading: Loading, loaded: &StoredRun) {
        let next = run.take_over(loading, loaded, &mut self.services);
        self.runs.insert(id, RunSlot::Active(Box::new(run)));
        self.apply(id, next);
    }

    /// A run cannot be loaded here. Its inbox rows are ignored for some time.
    pub(super) fn give_up(&mut self, id: RunId, loading: Loading, error: &Error) {
        let has_rows = loading.mailbox.iter().any(|envelope| envelope.inbox.is_some());
        if has_rows && !matches!(error, Error::Elsewhere(_)) {
            self.unreadable.shun(id, self.services.world.clock.monotonic());
        }
        loading.performer.abandon(id);
        let mut reports = Vec::new();
        for envelope in loading.mailbox {
            match error {
                Error::Elsewhere(_) if matches!(envelope.reply_to, ReplyTo::Worker(..)) => reports.push(envelope),
                _ => envelope.answer(Err(error.clone())),
            }
        }
        if let Error::Elsewhere(owner) = error {
            self.forward_reports(id, reports, *owner);
        }
    }

    /// Sends reports to the node that owns their run, one after the other, and replies to the worker.
    fn forward_reports(&self, run: RunId, reports: Vec<Envelope>, owner: NodeId) {
        if reports.is_empty() {
            return;
        }
        let peer = self.services.shared.peer(owner);
        let world = self.services.world.clone();
        self.services.world.spawn.spawn(Box::pin(async move {
            let mut is_lost = false;
            for envelope in reports {
                let Envelope { input, reply_to, workspace, .. } = envelope;
                let (ReplyTo::Worker(session, n), Some(workspace)) = (reply_to, workspace) else { continue };
                let answer = match peer.as_ref().filter(|_| !is_lost) {
                    Some(peer) => {
                        let input = RunInput::new(workspace, run, input);
                        world.peers.send(peer, input).await
                    }
                    None => Err(Error::Unreachable(owner)),
                };
                // A report must not overtake an earlier one that has no reply.
                is_lost |= answer.is_err();
                session.send(report_reply(n, None, answer));
            }
        }));
    }
}

/// Replies to reports of workers that do not serve the run's lane. The owner does not know which worker has sent them.
fn refuse_foreign_reports(loading: &mut Loading, loaded: &StoredRun) {
    let is_foreign = |envelope: &Envelope| matches!(&envelope.reply_to, ReplyTo::Worker(session, _) if !session.serves(&loaded.run.lane));
    let (foreign, rest): (VecDeque<_>, _) = loading.mailbox.drain(..).partition(is_foreign);
    loading.mailbox = rest;
    for envelope in foreign {
        envelope.answer(Err(Error::RunNotFound(loaded.run.id)));
    }
}

/// Reads a run and its workflow, and folds its journal. If this build cannot read them, that is the run's own failure.
async fn load_run(world: &World, library: &Library, run: RunId) -> LoadResult {
    let unreadable = |reason: String| Failure::fatal(code::JOURNAL_UNREADABLE, reason);
    loop {
        let mut loaded = match world.runs.load_run(run).await {
            Ok(Some(loaded)) => loaded,
            Ok(None) => return Err(Error::RunNotFound(run)),
            Err(error) if error.is_transient() => {
                tracing::warn!(%run, %error, "loading failed; retrying");
                world.sleep(READ_RETRY_DELAY).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        if let Some((_, reason)) = &loaded.unreadable {
            let failure = unreadable(reason.clone());
            return Ok((loaded, Err(failure)));
        }
        let row = &loaded.run;
        let workflow = match library.of_run(row).await {
            Ok(workflow) => workflow,
            Err(Error::Unavailable(_)) => {
                world.sleep(READ_RETRY_DELAY).await;
                continue;
            }
            Err(error) => return Ok((loaded, Err(unreadable(error.to_string())))),
        };
        let mut folded = library.fold(&loaded, &workflow);
        if folded.is_err() && loaded.snapshot.as_ref().is_some_and(|snapshot| !is_usable(snapshot)) {
            loaded = match without_snapshot(world, loaded).await {
                Ok(loaded) => loaded,
                Err(error) => {
                    tracing::warn!(%run, %error, "loading failed; retrying");
                    world.sleep(READ_RETRY_DELAY).await;
                    continue;
                }
            };
            folded = library.fold(&loaded, &workflow);
        }
        let folded = folded.map(|state| FoldedRun { workflow, state }).map_err(unreadable);
        return Ok((loaded, folded));
    }
}

/// Reads the journal from its beginning, because this build cannot use the snapshot.
async fn without_snapshot(world: &World, mut loaded: StoredRun) -> Result<StoredRun, Error> {
    let last = loaded.entries.last().map_or_else(|| loaded.snapshot.as_ref().map_or(0, |s| s.seq), |entry| entry.seq);
    loaded.snapshot = None;
    loaded.entries.clear();
    let add = |entry| {
        loaded.entries.push(entry);
        Ok(())
    };
    read_until(&*world.runs, loaded.run.id, last, add).await?;
    Ok(loaded)
}
