//! The loop that carries out the fan-out of events.
//!
//! The order of events:
//!
//! 1. It takes events whose fan-out is not done, workspaces in turn: those that this node has published, and those that
//!    a search has found.
//! 2. It makes the next slice of each, and writes the slices in one transaction. The row of an event is the gate of its
//!    slice: if another node has written the slice, nothing of it is written here, and the other node continues.
//! 3. It notifies the shards of the runs that this node owns, the owners of the runs that got an inbox row, and the other
//!    nodes if there are runs for which this node has no room.
//! 4. Events with a next slice wait for their next turn.
//!
//! If the outcome of a transaction is unknown, the loop reads the events again: their positions show which slices were
//! written. The runs that this node owns since then are found by the claimer, as after a claim whose reply was lost.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use everstep_core::failure::{Failure, code};
use everstep_core::ids::NodeId;
use everstep_core::meter::Meter;
use everstep_core::time::Timestamp;
use everstep_core::topics::{FailedStart, TopicEvent};
use everstep_store::{Error, EventResult, EventRow, EventSlice, Result, SentInput, SliceOutcome};
use futures_util::stream::{self, StreamExt};

use super::handle::Topics;
use super::queue::{OpenEvent, Search};
use super::slice::{MadeSlice, SliceMaker};
use super::starts;
use crate::message::ToClaimer;
use crate::node::member::Member;
use crate::node::peers::Hint;
use crate::node::permits::Share;
use crate::node::rejoin::Membership;
use crate::options::Options;
use crate::ports::World;
use crate::read::Library;
use crate::upkeep::counts::{self, Tally};

/// The number of events whose slices are written together.
const EVENTS_MAX: usize = 64;
/// The number of rows of slices that are written together while other workspaces write.
const SHARED_ROWS_MAX: usize = 128;
/// The number of slices that are made at the same time.
const SLICES_MADE_TOGETHER: usize = 4;
/// The size of the events whose slices are written together.
const EVENTS_BYTES_MAX: usize = 1024 * 1024;
/// An open event that is older than this is not continued by the node that has published it.
const STALLED_AFTER: Duration = Duration::from_secs(2);
/// The ids of events begin with their times. A search for all events includes those of a clock that was ahead.
const CLOCK_AHEAD_MAX: Duration = Duration::from_secs(400 * 24 * 60 * 60);
/// The pause after an error of the database.
const RETRY_DELAY: Duration = Duration::from_millis(200);

pub(crate) struct FanOut {
    world: World,
    options: Options,
    library: Arc<Library>,
    tally: Arc<Tally>,
    topics: Arc<Topics>,
    /// The node that this process is at present.
    membership: Weak<Membership>,
}

/// A slice on its way to the store, with its event.
struct Proposed {
    open: OpenEvent,
    made: MadeSlice,
}

impl FanOut {
    pub(crate) fn new(
        world: &World,
        options: &Options,
        library: &Arc<Library>,
        tally: &Arc<Tally>,
        topics: &Arc<Topics>,
        membership: &Arc<Membership>,
    ) -> Self {
        Self {
            world: world.clone(),
            options: options.clone(),
            library: Arc::clone(library),
            tally: Arc::clone(tally),
            topics: Arc::clone(topics),
            membership: Arc::downgrade(membership),
        }
    }

    /// Runs until the engine is dropped.
    pub(crate) async fn run(self) {
        // Events of an earlier process on this database may be open.
        self.topics.queue().search(Search::All);
        loop {
            let done = match self.next_events().await {
                Ok(events) if events.is_empty() => {
                    self.topics.queue().changed().await;
                    continue;
                }
                Ok(events) => {
                    let Some(member) = self.membership.upgrade().map(|membership| membership.member()) else { return };
                    self.run_once(&member, events).await
                }
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                tracing::warn!(%error, "the fan-out of events failed; trying again");
                self.world.sleep(RETRY_DELAY).await;
            }
        }
    }

    /// The events whose next slices are made: those that wait, and those that a search has found.
    async fn next_events(&self) -> Result<Vec<OpenEvent>> {
        let queue = self.topics.queue();
        if let Some(search) = queue.take_search() {
            match self.search(search).await {
                Ok(rows) => {
                    if rows.len() == EVENTS_MAX {
                        queue.search(search);
                    }
                    queue.add(rows);
                }
                Err(error) => {
                    queue.search(search);
                    return Err(error);
                }
            }
        }
        Ok(queue.take(EVENTS_MAX, EVENTS_BYTES_MAX))
    }

    async fn search(&self, search: Search) -> Result<Vec<EventRow>> {
        let now = self.world.clock.now();
        let before = match search {
            // The clock of the process that has published them may have been ahead of this one.
            Search::All => now.plus(CLOCK_AHEAD_MAX),
            Search::Stalled => {
                let age = i64::try_from(STALLED_AFTER.as_micros()).unwrap_or(i64::MAX);
                Timestamp::from_micros(now.micros().saturating_sub(age))
            }
        };
        self.world.topics.open_events(before, None, EVENTS_MAX).await
    }

    /// Writes the next slice of each event.
    async fn run_once(&self, member: &Member, events: Vec<OpenEvent>) -> Result<()> {
        // Few at a time: the reads of other callers come between.
        let made = stream::iter(events.into_iter().map(|open| self.make(open)));
        let made: Vec<_> = made.buffered(SLICES_MADE_TOGETHER).collect().await;
        let mut failure = None;
        let mut proposed = Vec::new();
        for made in made {
            match made {
                Ok(made) => proposed.push(made),
                Err((open, error)) => {
                    self.topics.queue().put_back([open]);
                    failure = Some(error);
                }
            }
        }
        let is_shared = member.shared.pace.is_shared(self.world.clock.monotonic());
        let mut batches = if is_shared { divide(proposed) } else { vec![proposed] };
        while let Some(batch) = batches.pop().filter(|batch| !batch.is_empty()) {
            // Slices with data that the database rejects are written alone, so that others are not affected.
            match self.write(member, batch).await {
                Ok(Written::All) => {}
                Ok(Written::Alone(slices)) => batches.extend(slices.into_iter().map(|slice| vec![slice])),
                Err(error) => {
                    let rest = batches.into_iter().flatten();
                    self.topics.queue().put_back(rest.map(|proposed| proposed.open));
                    return Err(error);
                }
            }
        }
        failure.map_or(Ok(()), |error| Err(Error::Unavailable(error.to_string())))
    }

    /// The next slice of an event; the event itself if the database does not answer.
    async fn make(&self, open: OpenEvent) -> std::result::Result<Proposed, (OpenEvent, crate::Error)> {
        let rows_max = open.rows_max.min(self.options.event_slice_rows_max).max(1);
        let (world, library, options) = (&self.world, &self.library, &self.options);
        let maker = SliceMaker { world, library, options, rows_max, meter: Meter::new() };
        match maker.make(&open.row).await {
            Ok(made) => Ok(Proposed { open, made }),
            Err(error) => Err((open, error)),
        }
    }

    /// Writes slices in one transaction.
    async fn write(&self, member: &Member, batch: Vec<Proposed>) -> Result<Written> {
        let (mut events, mut made): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|proposed| (proposed.open, proposed.made)).unzip();
        let mut reserved = starts::place(&mut made, member);
        let (slices, versions): (Vec<EventSlice>, Vec<_>) =
            made.into_iter().map(|made| (made.slice, made.versions)).unzip();
        match self.world.topics.fan_out(member.node, &slices).await {
            Ok(outcomes) => {
                let now = self.world.clock.now();
                let mut has_unowned = false;
                let mut sent = Vec::new();
                for (((open, slice), versions), outcome) in events.into_iter().zip(&slices).zip(&versions).zip(outcomes)
                {
                    match outcome {
                        SliceOutcome::Written { started, sent: inputs } => {
                            let reserved = &mut reserved;
                            has_unowned |= starts::begin(slice, versions, &started, member, reserved, &self.tally, now);
                            sent.extend(inputs);
                            self.go_on(open, slice);
                        }
                        SliceOutcome::Stale => self.give_up(open, member).await,
                    }
                }
                self.announce(&sent, has_unowned, member);
                Ok(Written::All)
            }
            Err(Error::Refused(message)) => {
                if slices.len() == 1 {
                    for (open, slice) in events.into_iter().zip(slices) {
                        self.narrow(open, slice, &message, member).await?;
                    }
                    return Ok(Written::All);
                }
                let made = slices.into_iter().zip(versions).map(|(slice, versions)| MadeSlice { slice, versions });
                let unowned = made.map(MadeSlice::without_owners);
                let alone = events.into_iter().zip(unowned).map(|(open, made)| Proposed { open, made });
                Ok(Written::Alone(alone.collect()))
            }
            Err(error) => {
                match error {
                    // Nothing was written.
                    Error::Fenced(_) => member.shared.fence(),
                    Error::Full(_) => {}
                    _ => {
                        let _ = member.claimer.send(ToClaimer::Unanswered(reserved));
                        let unsure = events.into_iter().map(|open| OpenEvent { is_unsure: true, ..open });
                        events = self.read_again(unsure.collect(), member).await;
                    }
                }
                self.topics.queue().put_back(events);
                Err(error)
            }
        }
    }

    /// An event whose slice was written: it waits for its next turn, or its fan-out is done.
    fn go_on(&self, mut open: OpenEvent, slice: &EventSlice) {
        for (result, count) in count_results(&slice.results) {
            self.world.observe.subscriptions_matched(result, count);
        }
        if !slice.dead_letters.is_empty() {
            self.world.dead_letters.wake_for_notices();
        }
        open.row.matched = open.row.matched.plus(slice.counts());
        open.is_unsure = false;
        match &slice.next {
            Some(next) => {
                open.row.position = next.clone();
                self.topics.queue().put_back([OpenEvent::new(open.row)]);
            }
            None => {
                open.row.fanned_at = Some(self.world.clock.now());
                self.world.observe.event_fanned(&open.row);
                self.topics.waiters().notify(open.row.event.id);
            }
        }
    }

    /// Another node has written the slice of an event, and continues; or this node has, without receiving the reply.
    async fn give_up(&self, open: OpenEvent, member: &Member) {
        if !self.world.runs.is_shared() || open.is_unsure {
            let again = self.read_again(vec![open], member).await;
            self.topics.queue().put_back(again);
        }
    }

    /// The positions of events, as the database has them now. Events whose fan-out is done are left out.
    async fn read_again(&self, events: Vec<OpenEvent>, member: &Member) -> Vec<OpenEvent> {
        let mut open = Vec::new();
        let mut has_moved = false;
        for event in events {
            let read = self.world.topics.event(event.row.event.workspace, event.row.event.id).await;
            let Ok(read) = read else {
                open.push(event);
                continue;
            };
            let Some(row) = read else { continue };
            let has_new_position = row.fanned_at.is_some() || row.position != event.row.position;
            has_moved |= has_new_position && event.is_unsure;
            if row.fanned_at.is_some() {
                self.topics.waiters().notify(row.event.id);
            } else {
                let is_unsure = event.is_unsure && !has_new_position;
                open.push(OpenEvent { row, is_unsure, ..event });
            }
        }
        if has_moved {
            // This node may own the runs of a slice, and has not counted them.
            let none = member.shared.permits.reserve(Share::Server, 0);
            let _ = member.claimer.send(ToClaimer::Unanswered(none));
            let _ = member.claimer.send(ToClaimer::Inbox);
            counts::recount(&self.world);
        }
        open
    }

    /// The database rejects a slice: the next one of the event is smaller. A single start becomes a failed result
    /// and a dead letter.
    async fn narrow(&self, open: OpenEvent, slice: EventSlice, message: &str, member: &Member) -> Result<()> {
        if open.rows_max > 1 && slice.results.len() > 1 {
            let rows_max = (slice.results.len().min(open.rows_max) / 2).max(1);
            self.topics.queue().put_back([OpenEvent { rows_max, ..open }]);
            return Ok(());
        }
        let event = open.row.event.id;
        tracing::warn!(%event, message, "the database rejects a target of an event");
        let failed = match self.refuse_starts(&open.row.event, slice, message).await {
            Ok(failed) => failed,
            Err(error) => {
                self.topics.queue().put_back([open]);
                return Err(error);
            }
        };
        let mut written = self.world.topics.fan_out(member.node, std::slice::from_ref(&failed)).await;
        let bare = EventSlice { dead_letters: Vec::new(), ..failed.clone() };
        let mut sent = &failed;
        if matches!(written, Err(Error::Refused(_))) {
            // A dead letter contains the event. If the database rejects it too, the result is the only report.
            sent = &bare;
            written = self.world.topics.fan_out(member.node, std::slice::from_ref(&bare)).await;
        }
        match written {
            Ok(outcomes) => {
                match outcomes.into_iter().next() {
                    Some(SliceOutcome::Written { .. }) => self.go_on(open, sent),
                    Some(SliceOutcome::Stale) | None => self.give_up(open, member).await,
                }
                Ok(())
            }
            Err(error) => {
                self.topics.queue().put_back([open]);
                Err(error)
            }
        }
    }

    /// A slice without its targets: each start is a failed result and a dead letter.
    async fn refuse_starts(&self, event: &TopicEvent, slice: EventSlice, message: &str) -> Result<EventSlice> {
        let EventSlice { results, mut dead_letters, .. } = slice;
        let mut failed = Vec::new();
        for result in results {
            match result {
                EventResult::Run { subscription, .. } => {
                    // A subscription that was deleted has no dead letters.
                    if let Some(found) = self.world.topics.subscription(event.workspace, subscription).await? {
                        let failure = Failure::fatal(code::STORE_REFUSED, message);
                        dead_letters.push(FailedStart::dead_letter(&found, event, &failure, slice.at));
                    }
                    let (code, message) = (code::STORE_REFUSED.to_owned(), message.to_owned());
                    failed.push(EventResult::Failed { subscription, code, message });
                }
                EventResult::Failed { .. } => failed.push(result),
                EventResult::Wait { .. } => {}
            }
        }
        Ok(EventSlice { results: failed, starts: Vec::new(), inputs: Vec::new(), dead_letters, ..slice })
    }

    /// Makes the owners of runs read their inboxes, and the other nodes claim runs.
    fn announce(&self, sent: &[SentInput], has_unowned: bool, member: &Member) {
        let written = sent.iter().filter(|sent| sent.id.is_some());
        let owners: BTreeSet<Option<NodeId>> =
            written.map(|sent| sent.owner.filter(|owner| *owner != member.node)).collect();
        for owner in owners {
            match owner {
                None => _ = member.claimer.send(ToClaimer::Inbox),
                Some(owner) => {
                    if let Some(peer) = member.shared.peer(owner) {
                        self.world.peers.hint(&peer, Hint::Inbox);
                    }
                }
            }
        }
        if has_unowned {
            for peer in member.shared.peers() {
                self.world.peers.hint(&peer, Hint::Work);
            }
        }
    }
}

/// The outcome of a transaction.
enum Written {
    All,
    /// One of these slices was rejected, and none was written: they are written one by one.
    Alone(Vec<Proposed>),
}

impl MadeSlice {
    fn without_owners(mut self) -> Self {
        for start in &mut self.slice.starts {
            start.owner = None;
        }
        self
    }
}

/// The numbers of results by their kinds, as metrics name them.
fn count_results(results: &[EventResult]) -> [(&'static str, usize); 3] {
    let mut counts = [("run", 0), ("wait", 0), ("failed", 0)];
    for result in results {
        let kind = match result {
            EventResult::Run { .. } => 0,
            EventResult::Wait { .. } => 1,
            EventResult::Failed { .. } => 2,
        };
        counts[kind].1 += 1;
    }
    counts
}

/// Divides slices into short transactions, the last one first.
fn divide(proposed: Vec<Proposed>) -> Vec<Vec<Proposed>> {
    let mut batches: Vec<Vec<Proposed>> = Vec::new();
    let mut rows = 0;
    for slice in proposed {
        let more = slice.made.slice.starts.len() + slice.made.slice.inputs.len();
        rows += more;
        match batches.last_mut() {
            Some(last) if rows <= SHARED_ROWS_MAX => last.push(slice),
            Some(_) | None => {
                batches.push(vec![slice]);
                rows = more;
            }
        }
    }
    batches.reverse();
    batches
}
