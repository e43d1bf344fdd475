//! Brings runs into memory: those that were claimed, and those that an input is for.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use everstep_core::failure::{Failure, code};
use everstep_core::ids::RunId;
use everstep_core::journal::codec;
use everstep_core::journal::{Entry, Event, FORMAT};
use everstep_core::planted::{self, Bug};
use everstep_core::run::Input;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_store::{Gate, Item, Loaded, NewEntry, Projection, RunRow};

use crate::error::Error;
use crate::library::Library;
use crate::message::{Mail, Place, Read, Respond, ToClaimer, ToShard};
use crate::ports::World;
use crate::run::active::{self as held, Becomes, Held, Loading, Slot, Tenure};
use crate::shard::Shard;

/// How long the inbox rows of a run that cannot be read are left alone.
const SHUNNED: Duration = Duration::from_secs(60);
/// A run of ours that cannot be loaded is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// A run that cannot be read, and the entries that say so.
pub(crate) struct Pausing {
    pub(crate) row: RunRow,
    pub(crate) entries: Vec<Entry>,
}

impl Shard {
    pub(crate) fn claimed(&mut self, run: RunId) {
        let place = Place::adopt(&self.shared, &self.claimer);
        match self.runs.get_mut(&run) {
            None => self.load(run, Loading { place: Some(place), ..Loading::default() }),
            Some(Slot::Loading(loading)) => {
                loading.must_reload = true;
                loading.place = Some(place);
            }
            // It visits here to answer an input, or is about to be parked, and was claimed meanwhile.
            Some(Slot::Held(held)) => {
                held.claim = Some(place);
                self.workers.came(run);
            }
        }
    }

    /// The database says that a run is ours. One that is not held as such was claimed without our learning of it.
    pub(crate) fn owned(&mut self, run: RunId) {
        if self.pausing.contains_key(&run) {
            return;
        }
        match self.runs.get_mut(&run) {
            None => self.load(run, Loading::default()),
            Some(Slot::Loading(loading)) => loading.must_reload = true,
            Some(Slot::Held(held)) => {
                let leaves = held.flight.as_ref().is_some_and(|flight| flight.becomes != Becomes::Owned);
                if (held.tenure == Tenure::Visiting || leaves) && held.claim.is_none() {
                    held.claim = Some(Place::take(&self.shared, &self.claimer));
                }
            }
        }
    }

    pub(crate) fn place(&self) -> Place {
        Place::take(&self.shared, &self.claimer)
    }

    /// Reads a run's journal, beside this loop.
    pub(crate) fn load(&mut self, run: RunId, loading: Loading) {
        self.runs.insert(run, Slot::Loading(loading));
        let (world, library, me) = (self.world.clone(), Arc::clone(&self.library), self.me.clone());
        self.world.spawn.spawn(Box::pin(async move {
            let loaded = load_run(&world, &library, run).await;
            let _ = me.send(ToShard::Loaded(run, Box::new(loaded)));
        }));
    }

    /// Reads a run of ours again after a while; it must not be lost from sight.
    fn load_later(&mut self, run: RunId, loading: Loading) {
        self.runs.insert(run, Slot::Loading(Loading { must_reload: true, ..loading }));
        let (world, me) = (self.world.clone(), self.me.clone());
        self.world.spawn.spawn(Box::pin(async move {
            world.sleep(RETRY).await;
            let _ = me.send(ToShard::Loaded(run, Box::new(Err(Error::RunNotFound(run)))));
        }));
    }

    pub(crate) fn loaded(&mut self, run: RunId, loaded: Read) {
        self.take_loaded(run, loaded);
        self.workers.came(run);
    }

    fn take_loaded(&mut self, run: RunId, loaded: Read) {
        if !matches!(self.runs.get(&run), Some(Slot::Loading(_))) {
            return;
        }
        let Some(Slot::Loading(loading)) = self.runs.remove(&run) else { return };
        if loading.must_reload {
            self.load(run, Loading { must_reload: false, ..loading });
            return;
        }
        let (loaded, workflow) = match loaded {
            Ok(loaded) => loaded,
            Err(error) => {
                if matches!(error, Error::RunNotFound(_)) {
                    // Anybody may ask for a run that was never there.
                    tracing::debug!(%run, "a run was not found");
                    return self.give_up(run, loading, &error);
                }
                tracing::error!(%run, %error, "a run cannot be loaded");
                if loading.place.is_some() {
                    return self.load_later(run, loading);
                }
                return self.give_up(run, loading, &error);
            }
        };
        let tenure = match loaded.run.owner {
            Some(owner) if owner == self.node => Tenure::Owned,
            None => {
                // Where an unknown outcome was that we parked it, nobody has been told when it is due.
                let lane = loaded.run.lane.as_str().into();
                let _ = self.claimer.send(ToClaimer::Parked(lane, loaded.run.wake_at));
                Tenure::Visiting
            }
            Some(owner) => {
                let mut loading = loading;
                // The owner does not know who speaks.
                let is_foreign = |mail: &Mail| matches!(&mail.respond, Respond::Worker(session, _) if !session.serves(&loaded.run.lane));
                let (foreign, rest): (VecDeque<_>, _) = loading.mailbox.drain(..).partition(is_foreign);
                loading.mailbox = rest;
                for mail in foreign {
                    mail.answer(Err(Error::RunNotFound(run)));
                }
                return self.give_up(run, loading, &Error::Elsewhere(owner));
            }
        };
        if tenure == Tenure::Visiting && loaded.run.format > FORMAT {
            let newer = format!("run {run} was written by a newer release; ask a node of that release");
            return self.give_up(run, loading, &Error::Busy(newer));
        }
        let held = match workflow.and_then(|workflow| Held::load(&loaded, &workflow, tenure)) {
            Ok(held) => held,
            Err(failure) => return self.pause_unreadable(loaded, loading, failure),
        };
        self.hold(run, held, loading, &loaded);
    }

    pub(crate) fn hold(&mut self, run: RunId, mut held: Held, loading: Loading, loaded: &Loaded) {
        let is_owned = held.tenure == Tenure::Owned;
        held.place = is_owned.then(|| loading.place.unwrap_or_else(|| self.place()));
        held.performing = loading.performing;
        held.performing.keep_open(&held.state);
        held.keep_turn(loading.at_worker);
        held.due_by_row = loaded.run.wake_at;
        held.conflict = loading.conflict;
        held.urgent = loading.urgent;
        if is_owned {
            held.mailbox.push_back(Mail::of(Input::Settle));
        } else if loaded.run.wake_at == Timestamp::NEVER && !held.state.is_paused() && !held.state.has_ended() {
            // It was parked, and so its children are there. (A run that was released is due; one that is paused, or
            // has failed, may have children that nobody has started yet.)
            held.take_children_as_born();
        }
        // The inbox as it was read counts. A row that came by mail and is not there was answered, or came later.
        let rows: BTreeSet<_> = loaded.inbox.iter().map(|arrival| arrival.id).collect();
        held.mailbox.extend(loaded.inbox.iter().filter_map(Mail::read));
        for mail in loading.mailbox {
            match mail.inbox {
                None => held.mailbox.push_back(mail),
                Some(row) if rows.contains(&row) => {}
                Some(_) => _ = self.claimer.send(ToClaimer::Inbox),
            }
        }
        if is_owned {
            held.find_lost_tasks();
        }
        if planted::is_planted(Bug::TimerLostOnReload) {
            held.timer = held.state.next_due();
        }
        self.runs.insert(run, Slot::Held(Box::new(held)));
        self.set_timer(run);
        if is_owned {
            self.see_to_children(run);
        }
        self.advance(run);
    }

    /// A run cannot be taken here. Its inbox rows are not looked at for a while.
    pub(crate) fn give_up(&mut self, run: RunId, loading: Loading, error: &Error) {
        if loading.mailbox.iter().any(|mail| mail.inbox.is_some()) && !matches!(error, Error::Elsewhere(_)) {
            self.shunned.insert(run, self.world.clock.monotonic() + SHUNNED);
        }
        loading.performing.abort();
        Self::revoke(loading.at_worker, run);
        let mut reports = Vec::new();
        for mail in loading.mailbox {
            match error {
                Error::Elsewhere(_) if matches!(mail.respond, Respond::Worker(..)) => reports.push(mail),
                _ => mail.answer(Err(error.clone())),
            }
        }
        if let Error::Elsewhere(owner) = error {
            self.pass_on(run, reports, *owner);
        }
    }

    /// Pauses a run whose journal this build cannot read. It is never failed: another build may read it.
    pub(crate) fn pause_unreadable(&mut self, loaded: Loaded, loading: Loading, failure: Failure) {
        tracing::error!(run = %loaded.run.id, %failure, "paused");
        let error = Error::Unavailable(failure.to_string());
        let now = self.world.clock.now();
        if loaded.run.owner == Some(self.node) {
            let event = Event::RunPaused { reason: Some(failure.clone()) };
            let read = loaded.entries.last().map(|entry| entry.seq).or(loaded.snapshot.map(|snapshot| snapshot.seq));
            let last = loaded.unreadable.map(|(last, _)| last).or(read).unwrap_or(0);
            let entry = Entry::new(last + 1, now, event);
            let row = NewEntry { seq: entry.seq, at: now, row: codec::encode(&entry) };
            let was_paused = loaded.run.status == Status::Paused;
            let writer = self.writer(now);
            let item = Item {
                commit: writer.commit,
                run: loaded.run.id,
                workspace: loaded.run.workspace,
                gate: Gate::Owned,
                entries: if was_paused { Vec::new() } else { vec![row] },
                projection: Some(Projection {
                    status: Status::Paused,
                    owner: None,
                    wake_at: Timestamp::NEVER,
                    output: None,
                    error: Some(failure),
                    ended_at: None,
                }),
                waits: Vec::new(),
                taken: Vec::new(),
                inbox_inputs: Vec::new(),
            };
            let entries = if was_paused { Vec::new() } else { vec![entry] };
            self.pausing.insert(loaded.run.id, Pausing { row: loaded.run.clone(), entries });
            self.submit(item, 512);
        }
        self.give_up(loaded.run.id, loading, &error);
    }
}

/// Reads a run and its workflow. What this build cannot read is the run's own failure.
async fn load_run(world: &World, library: &Library, run: RunId) -> Read {
    let unreadable = |reason: String| Failure::fatal(code::JOURNAL_UNREADABLE, reason);
    loop {
        let loaded = match world.runs.load_run(run).await {
            Ok(Some(loaded)) => loaded,
            Ok(None) => return Err(Error::RunNotFound(run)),
            Err(error) if error.is_transient() => {
                tracing::warn!(%run, %error, "loading failed; trying again");
                world.sleep(Duration::from_millis(200)).await;
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
                world.sleep(Duration::from_millis(200)).await;
                continue;
            }
            Err(error) => return Ok((loaded, Err(unreadable(error.to_string())))),
        };
        match without_unusable_snapshot(world, loaded).await {
            Ok(loaded) => return Ok((loaded, Ok(workflow))),
            Err(error) => {
                tracing::warn!(%run, %error, "loading failed; trying again");
                world.sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

/// A snapshot of another format is no use: then the journal is read from its beginning.
async fn without_unusable_snapshot(world: &World, mut loaded: Loaded) -> Result<Loaded, Error> {
    if loaded.snapshot.as_ref().is_none_or(held::is_usable) {
        return Ok(loaded);
    }
    let last = loaded.entries.last().map_or_else(|| loaded.snapshot.as_ref().map_or(0, |s| s.seq), |entry| entry.seq);
    loaded.snapshot = None;
    loaded.entries.clear();
    while loaded.entries.last().map_or(0, |entry| entry.seq) < last {
        let after = loaded.entries.last().map_or(0, |entry| entry.seq);
        let page = world.runs.journal(loaded.run.id, after, 10_000).await?;
        if page.is_empty() {
            break;
        }
        loaded.entries.extend(page);
    }
    loaded.entries.retain(|entry| entry.seq <= last);
    Ok(loaded)
}
