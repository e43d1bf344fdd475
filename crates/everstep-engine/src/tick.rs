//! The heartbeat of a node that shares its database with others.
//!
//! Once a second it renews the lease, fences nodes that let theirs lapse, releases what the fenced owned, claims what
//! is due, and reads the inbox. Hints make all of it fast; the tick makes it true.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use everstep_core::planted::{self, Bug};
use everstep_core::time::Timestamp;
use everstep_store::{Error, Result, Wants};
use futures_util::future::{self, Either};

use crate::claim::{BATCH, Claimer};
use crate::count;
use crate::message::ToClaimer;
use crate::options::Options;
use crate::ports::World;
use crate::shard::ToShard;
use crate::sightings::Sightings;
use crate::tasks::Dispatcher;
use crate::workers::More;

/// Runs of fenced owners that are released at once.
const RELEASE: usize = 500;
/// A machine's clock that is off by more is worth a warning.
const MUCH_SKEW: i64 = 1_000_000;

pub(crate) struct Ticker {
    claimer: Claimer,
    dispatcher: Arc<Dispatcher>,
    sightings: Sightings,
    period: Duration,
    /// A tick or claim whose answer was lost may have claimed runs that we do not know.
    must_recover: bool,
    has_warned: bool,
}

/// What there is to do before the next tick.
#[derive(Default)]
struct Todo {
    claim: bool,
    /// Claim in lanes that had no room.
    seats: bool,
    inbox: bool,
    stop: bool,
}

impl Ticker {
    pub(crate) fn new(claimer: Claimer, dispatcher: Arc<Dispatcher>) -> Self {
        let lease = claimer.options.node_lease;
        let period = (lease / 10).min(Duration::from_secs(1));
        let sightings = Sightings::new(lease);
        Self { claimer, dispatcher, sightings, period, must_recover: false, has_warned: false }
    }

    pub(crate) async fn run(mut self) {
        let clock = Arc::clone(&self.claimer.world.clock);
        let mut next = clock.monotonic();
        loop {
            if clock.monotonic() >= next {
                let began = clock.monotonic();
                match self.run_once().await {
                    Ok(true) => continue,
                    Ok(false) => next = began + self.period,
                    Err(Error::Fenced(_)) => return self.claimer.shared.fence(),
                    Err(error) => {
                        tracing::warn!(%error, "the tick failed; the next one tries again");
                        self.sightings.forget();
                        self.must_recover = true;
                        next = began + self.period;
                    }
                }
            }
            let todo = self.wait(next.saturating_sub(clock.monotonic())).await;
            if todo.stop {
                return;
            }
            let mut done = Ok(());
            if todo.inbox {
                done = self.claimer.read_inbox(None).await;
            }
            if todo.claim && done.is_ok() {
                done = self.claim(next).await;
            } else if todo.seats && done.is_ok() {
                done = self.claim_code(self.claimer.workers.backlog()).await;
            }
            match done {
                Ok(()) => {}
                Err(Error::Fenced(_)) => return self.claimer.shared.fence(),
                Err(error) => {
                    tracing::warn!(%error, "claiming failed; the next tick tries again");
                    self.must_recover = true;
                }
            }
        }
    }

    /// One tick. Returns whether there is more to do at once.
    async fn run_once(&mut self) -> Result<bool> {
        let Claimer { world, options, node, shared, .. } = &self.claimer;
        let room = self.claimer.room();
        let for_code = self.claimer.room_for_code();
        let asked = if for_code > 0 { self.claimer.workers.rooms() } else { Vec::new() };
        let mut lanes = vec![(String::new(), room)];
        lanes.extend(asked.iter().map(|(lane, share)| (lane.to_string(), (*share).min(for_code))));
        let wants = Wants { lanes, release: RELEASE, inbox: BATCH };
        let sent = world.clock.monotonic();
        let tick = world.runs.tick(*node, lease(world, options), world.clock.now(), &wants).await?;
        let received = world.clock.monotonic();
        world.clock.follow(tick.clock, sent, received);
        shared.renewed(sent + options.dispatch_for());
        self.dispatcher.go_on();
        shared.see_peers(*node, &tick.nodes);
        for shard in &self.claimer.shards {
            let _ = shard.send(ToShard::Ticked);
        }
        let claimed = tick.claimed.len();
        // Which lanes they are of is not said: where there are any, whoever makes room has each asked again.
        let more = if claimed > 0 { More::Unknown } else { More::No };
        for (lane, _) in &asked {
            self.claimer.workers.claimed(lane, &tick.claimed, more);
        }
        self.claimer.hand_out(tick.claimed);
        shared.has_backlog.store(claimed >= room, Ordering::SeqCst);
        let last = tick.arrivals.last().map(|arrival| arrival.id);
        let is_full = tick.arrivals.len() == BATCH;
        self.claimer.hand_over(&tick.arrivals);
        let mut has_fenced = false;
        for (peer, lease_until) in self.sightings.see(*node, &tick.nodes, received) {
            if world.runs.fence(peer, lease_until).await? {
                tracing::warn!(node = %peer, "fenced: its lease was over for a whole lease; its runs go on elsewhere");
                has_fenced = true;
            }
        }
        if has_fenced {
            count::recount(world);
        }
        if self.must_recover {
            self.claimer.recover().await?;
            self.must_recover = false;
        }
        if is_full {
            self.claimer.read_inbox(last).await?;
        }
        self.warn_of_skew();
        let has_more = claimed >= room && room == BATCH;
        Ok(has_fenced || tick.released > 0 || has_more)
    }

    /// Room has freed, or somebody says that there is work: claims until there is none, or no room, or it is time for
    /// the next tick.
    async fn claim(&mut self, next: Duration) -> Result<()> {
        if self.must_recover {
            self.claimer.recover().await?;
            self.must_recover = false;
        }
        loop {
            let room = self.claimer.room();
            if room == 0 {
                self.claimer.shared.has_backlog.store(true, Ordering::SeqCst);
                return Ok(());
            }
            let Claimer { world, node, shared, .. } = &self.claimer;
            let runs = world.runs.claim_runs(*node, "", world.clock.now(), room).await?;
            let count = runs.len();
            self.claimer.hand_out(runs);
            shared.has_backlog.store(count == room, Ordering::SeqCst);
            if count < room || world.clock.monotonic() >= next {
                break;
            }
        }
        self.claim_code(self.claimer.workers.lanes()).await
    }

    /// Claims what is due in some lanes of code.
    async fn claim_code(&self, lanes: Vec<Arc<str>>) -> Result<()> {
        let Claimer { world, node, workers, .. } = &self.claimer;
        for lane in lanes {
            let room = workers.room(&lane).min(self.claimer.room_for_code());
            if room == 0 {
                continue;
            }
            let runs = world.runs.claim_runs(*node, &lane, world.clock.now(), room).await?;
            workers.claimed(&lane, &runs, More::after(runs.len(), room));
            self.claimer.hand_out(runs);
        }
        Ok(())
    }

    /// Waits for the next tick, or for news; what has come together is done together.
    async fn wait(&mut self, rest: Duration) -> Todo {
        let mut todo = Todo::default();
        let mut news = Vec::new();
        let received = {
            let receive = std::pin::pin!(self.claimer.news.recv_many(&mut news, BATCH));
            match future::select(receive, self.claimer.world.clock.sleep(rest)).await {
                Either::Left((received, _)) => Some(received),
                Either::Right(_) => None,
            }
        };
        todo.stop = received == Some(0);
        let now = self.claimer.world.clock.now();
        for news in news {
            match news {
                // The tick finds it in its time, but for what has only to wait for a worker.
                ToClaimer::Parked(lane, time) if time <= now && self.claimer.workers.is_served(&lane) => {
                    self.claimer.workers.set_backlog(&lane);
                    todo.seats = true;
                }
                ToClaimer::Parked(..) => {}
                ToClaimer::Room => todo.claim = true,
                ToClaimer::Seats => todo.seats = true,
                ToClaimer::Inbox => todo.inbox = true,
                ToClaimer::Stop => todo.stop = true,
            }
        }
        todo
    }

    fn warn_of_skew(&mut self) {
        let skew = self.claimer.world.clock.skew().unwrap_or(0);
        let is_much = skew.abs() > MUCH_SKEW;
        if is_much && !self.has_warned {
            let ahead = skew as f64 / 1e6;
            tracing::warn!(ahead, "this machine's clock is off by more than a second; the database's is followed");
        }
        self.has_warned = is_much;
    }
}

/// How long the node's lease is to run, from the moment that the database's clock shows.
fn lease(world: &World, options: &Options) -> Duration {
    if !planted::is_planted(Bug::LeaseOnNodeClock) {
        return options.node_lease;
    }
    let ahead = Timestamp::from_micros(world.clock.skew().unwrap_or(0));
    ahead.plus(options.node_lease).since(Timestamp::EPOCH)
}
