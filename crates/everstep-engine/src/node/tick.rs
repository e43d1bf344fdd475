//! The heartbeat of a node that shares its database with others.
//!
//! Once a second it renews the lease, fences nodes whose lease has expired, releases the runs of fenced nodes, claims
//! due runs, and reads the inbox. Hints provide speed; the tick provides correctness.

use std::sync::Arc;
use std::time::Duration;

use everstep_core::planted::{self, Bug};
use everstep_core::time::Timestamp;
use everstep_store::{Error, Result, Tick, TickRequest};
use futures_util::future::{self, Either};

use crate::message::ToClaimer;
use crate::node::claim::{BATCH_ROWS_MAX, Claimer};
use crate::node::clock::SkewAlert;
use crate::node::permits::{Reservation, Share};
use crate::node::sightings::Sightings;
use crate::options::Options;
use crate::ports::World;
use crate::shard::ToShard;
use crate::tasks::Dispatcher;
use crate::upkeep::counts;
use crate::workers::More;

/// The maximum number of runs of fenced nodes that one tick releases.
const RELEASED_RUNS_MAX: usize = 500;

pub(crate) struct Ticker {
    claimer: Claimer,
    dispatcher: Arc<Dispatcher>,
    sightings: Sightings,
    period: Duration,
    /// Whether the next tick may reserve the larger half of the free permits for workers.
    favours_workers: bool,
    skew_alert: SkewAlert,
}

/// The work before the next tick.
#[derive(Default)]
struct Todo {
    /// Claim in all lanes.
    claims_all: bool,
    /// Claim in the server's own lane.
    claims_own: bool,
    /// Claim in the lanes in which runs wait for a seat.
    claims_seats: bool,
    reads_inbox: bool,
    stops: bool,
}

/// The request of a tick, lane by lane, with the permits that are reserved for the reply.
struct Asked {
    server: usize,
    lanes: Vec<(Arc<str>, usize)>,
    /// Whether the lanes of workers got fewer permits than they have seats.
    is_short: bool,
    /// Whether workers have no permit at all, so that their lanes are not queried.
    is_full_for_workers: bool,
    reserved: Reservation,
}

impl Ticker {
    pub(crate) fn new(claimer: Claimer, dispatcher: Arc<Dispatcher>) -> Self {
        let lease = claimer.options.node_lease;
        let period = (lease / 10).min(Duration::from_secs(1));
        let sightings = Sightings::new(lease);
        Self { claimer, dispatcher, sightings, period, favours_workers: false, skew_alert: SkewAlert::default() }
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
                        self.claimer.expect_lost_claims(None);
                        next = began + self.period;
                    }
                }
            }
            let todo = self.wait(next.saturating_sub(clock.monotonic())).await;
            if todo.stops {
                return;
            }
            match self.work(&todo, next).await {
                Ok(()) => {}
                Err(Error::Fenced(_)) => return self.claimer.shared.fence(),
                Err(error) => {
                    tracing::warn!(%error, "a claim failed; the next tick tries again");
                    self.claimer.expect_lost_claims(None);
                }
            }
        }
    }

    /// One tick. Returns whether more work is ready at once.
    async fn run_once(&mut self) -> Result<bool> {
        let asked = self.ask();
        let lanes = asked.lanes.iter().map(|(lane, places)| (lane.to_string(), *places));
        let lanes = [(String::new(), asked.server)].into_iter().chain(lanes).collect();
        let Claimer { world, options, node, rotation, .. } = &self.claimer;
        let request = TickRequest { lanes, rotation: *rotation, release: RELEASED_RUNS_MAX, inbox: BATCH_ROWS_MAX };
        let sent = world.clock.monotonic();
        let tick = match world.runs.tick(*node, lease(world, options), world.clock.now(), &request).await {
            Ok(tick) => tick,
            Err(error) => {
                self.claimer.expect_lost_claims(Some(asked.reserved));
                return Err(error);
            }
        };
        let received = world.clock.monotonic();
        self.claimer.rotation = tick.rotation;
        self.renew(&tick, sent, received);
        let has_more_runs = self.take_runs(&tick, asked);
        self.claimer.hand_over(&tick.arrivals);
        if tick.has_open_events {
            self.claimer.shared.events.search_stalled();
        }
        let has_fenced = self.fence_silent_nodes(&tick, received).await?;
        self.claimer.recover().await?;
        if tick.arrivals.len() == BATCH_ROWS_MAX {
            self.claimer.read_inbox(tick.arrivals.last().map(|arrival| arrival.id)).await?;
        }
        self.claimer.claim_last_permits().await?;
        self.claimer.claim_last_in_lanes().await?;
        self.warn_of_skew();
        Ok(has_fenced || tick.released > 0 || has_more_runs)
    }

    /// Reserves permits for the claims of the tick. If permits are few, the server's own lane and the workers' lanes
    /// get half of them each; a single permit goes to them alternately.
    fn ask(&mut self) -> Asked {
        let free = self.claimer.room(Share::Server);
        let is_full_for_workers = self.claimer.room(Share::Worker) == 0 && self.claimer.workers.has_lanes();
        let mut lanes = if is_full_for_workers { Vec::new() } else { self.claimer.workers.rooms() };
        let seats = lanes.iter().map(|(_, seats)| *seats).sum();
        self.favours_workers = !self.favours_workers;
        let half = if self.favours_workers { free.div_ceil(2) } else { free / 2 };
        let mut reserved =
            self.claimer.reserve(Share::Worker, half.max(free.saturating_sub(BATCH_ROWS_MAX)).min(seats));
        let mut places = reserved.places();
        let is_short = places < seats;
        let mut others = lanes.len();
        lanes.retain_mut(|(_, seats)| {
            *seats = places.div_ceil(others.max(1)).min(*seats);
            (places, others) = (places - *seats, others - 1);
            *seats > 0
        });
        let server = self.claimer.reserve(Share::Server, BATCH_ROWS_MAX);
        let asked = server.places();
        reserved.add(server);
        Asked { server: asked, lanes, is_short, is_full_for_workers, reserved }
    }

    /// Records that the lease was renewed, counted from the sending of the tick.
    fn renew(&self, tick: &Tick, sent: Duration, received: Duration) {
        let Claimer { world, options, node, shared, shards, .. } = &self.claimer;
        world.clock.follow(tick.clock, sent, received);
        shared.renewed(sent + options.dispatch_for());
        self.dispatcher.go_on();
        shared.see_peers(*node, &tick.nodes);
        for shard in shards {
            let _ = shard.send(ToShard::Ticked);
        }
    }

    /// Sends claimed runs to their shards. Returns whether more may be claimed at once.
    fn take_runs(&self, tick: &Tick, mut asked: Asked) -> bool {
        let claimed = tick.claimed.len();
        // The reply does not name the lanes of the runs: if there are any, each lane is queried again as soon as it has
        // a free seat.
        let more = if claimed > 0 { More::Unknown } else { More::No };
        for (lane, _) in &asked.lanes {
            self.claimer.workers.claimed(lane, &tick.claimed, more);
        }
        self.claimer.hand_out(&tick.claimed, &mut asked.reserved);
        let had_no_place = asked.server == 0;
        let has_server_backlog = had_no_place || (claimed > 0 && claimed >= asked.server);
        let has_worker_backlog = asked.is_full_for_workers || (asked.is_short && claimed > 0);
        self.claimer.shared.permits.set_backlog(Share::Server, has_server_backlog);
        self.claimer.shared.permits.set_backlog(Share::Worker, has_worker_backlog);
        drop(asked);
        // Read after the backlog was set: a permit that became free before does not wake this loop.
        has_server_backlog && self.claimer.room(Share::Server) > 0
            || has_worker_backlog && self.claimer.room(Share::Worker) > 0
    }

    /// Fences nodes whose lease has expired. Returns whether there were any.
    async fn fence_silent_nodes(&mut self, tick: &Tick, received: Duration) -> Result<bool> {
        let Claimer { world, node, .. } = &self.claimer;
        let mut has_fenced = false;
        for (peer, lease_until) in self.sightings.record_sightings(*node, &tick.nodes, received) {
            if world.runs.fence(peer, lease_until).await? {
                tracing::warn!(node = %peer, "fenced a node: it has not renewed its lease for a whole lease; other nodes continue its runs");
                has_fenced = true;
            }
        }
        if has_fenced {
            counts::recount(world);
            // It may have held some.
            world.dead_letters.wake();
        }
        Ok(has_fenced)
    }

    /// Performs the work that messages have requested.
    async fn work(&mut self, todo: &Todo, next: Duration) -> Result<()> {
        if todo.reads_inbox {
            self.claimer.read_inbox(None).await?;
        }
        if todo.claims_all || todo.claims_own {
            self.claimer.recover().await?;
            self.claimer.claim_server_lane(Some(next)).await?;
        }
        if todo.claims_all {
            self.claim_lanes(self.claimer.workers.lanes()).await?;
        } else if todo.claims_seats {
            self.claim_lanes(self.claimer.workers.backlog()).await?;
        }
        Ok(())
    }

    async fn claim_lanes(&mut self, lanes: Vec<Arc<str>>) -> Result<()> {
        self.claimer.shared.permits.set_backlog(Share::Worker, false);
        for lane in lanes {
            self.claimer.claim_lane(&lane).await?;
        }
        Ok(())
    }

    /// Waits for the next tick, or for messages; all that have arrived are handled together.
    async fn wait(&mut self, rest: Duration) -> Todo {
        let mut todo = Todo::default();
        let mut messages = Vec::new();
        let received = {
            let receive = std::pin::pin!(self.claimer.messages.recv_many(&mut messages, BATCH_ROWS_MAX));
            match future::select(receive, self.claimer.world.clock.sleep(rest)).await {
                Either::Left((received, _)) => Some(received),
                Either::Right(_) => None,
            }
        };
        todo.stops = received == Some(0);
        let now = self.claimer.world.clock.now();
        for message in messages {
            match message {
                // A start found no permit: a permit may be free by now; otherwise the next one that becomes free must
                // wake this loop.
                ToClaimer::Parked(lane, time) if time <= now && lane.is_empty() => todo.claims_own = true,
                ToClaimer::Parked(lane, time) if time <= now && self.claimer.workers.is_served(&lane) => {
                    self.claimer.workers.set_backlog(&lane);
                    todo.claims_seats = true;
                }
                // A tick will find the rows.
                ToClaimer::Parked(..) => {}
                ToClaimer::Room => todo.claims_all = true,
                ToClaimer::Seats => todo.claims_seats = true,
                ToClaimer::Inbox => todo.reads_inbox = true,
                ToClaimer::Unanswered(reserved) => {
                    self.claimer.expect_lost_claims(Some(reserved));
                    todo.claims_own = true;
                }
                ToClaimer::Stop => todo.stops = true,
            }
        }
        todo
    }

    fn warn_of_skew(&mut self) {
        if let Some(ahead) = self.skew_alert.check(&self.claimer.world.clock) {
            tracing::warn!(
                ahead,
                "this machine's clock is off by more than a second; this node follows the database's clock"
            );
        }
    }
}

/// The duration of the node's lease, from the time of the database's clock.
fn lease(world: &World, options: &Options) -> Duration {
    if !planted::is_planted(Bug::LeaseOnNodeClock) {
        return options.node_lease;
    }
    let ahead = Timestamp::from_micros(world.clock.skew().unwrap_or(0));
    ahead.plus(options.node_lease).since(Timestamp::EPOCH)
}
