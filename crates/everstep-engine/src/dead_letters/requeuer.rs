//! The loop of dead letters of a node.
//!
//! The order of events:
//!
//! 1. It takes queued dead letters, and notices to be sent: when a caller requeues some on this node, when this node has
//!    written some, and every 30 seconds. A node without work makes one query in that time.
//! 2. It performs them with the config that they contain, up to three times each, and sends the notices.
//! 3. It writes the results. Until a result is written, the node keeps the dead letter: a result is sent again if its
//!    outcome is unknown.
//!
//! If the node dies, another one takes what it held: a requeue is performed at least once, with the same idempotency key.
//! If the node was fenced, it drops what it holds, because another node may have taken it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use everstep_core::dead_letter::{DeadLetter, DeadLetterAttempt};
use everstep_core::time::Timestamp;
use everstep_store::{
    DeadLetterClaim, DeadLetterOutcome, DeadLetterResult, DeadLetterRow, Error, LetterTarget, Result,
};
use futures_util::future;

use super::attempt::Performance;
use super::held::Held;
use super::notice::{Notice, Notices};
use crate::node::member::Member;
use crate::node::rejoin::Membership;
use crate::observe::{EndedEvent, EventOutcome};
use crate::options::Options;
use crate::ports::World;
use crate::read::Library;

/// The time between two searches of a node without work.
const POLL_INTERVAL: Duration = Duration::from_secs(30);
/// The pause after an error of the database, and while the node may not write.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Operators are not notified of older dead letters: a server whose address for notices is set later does not send them
/// all at once.
const NOTICE_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The pauses between the attempts of a notice.
const NOTICE_DELAYS: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(1)];

pub(crate) struct Requeuer {
    world: World,
    options: Options,
    library: Arc<Library>,
    /// The node that this process is at present.
    membership: Weak<Membership>,
}

/// The times of the next calls of the database, on the monotonic clock.
struct NextCalls {
    take: Duration,
    settle: Duration,
    /// Whether dead letters wait for room on this node.
    is_full: bool,
    /// Whether the outcome of writing results is unknown: their dead letters may have been requeued, and are not taken
    /// before the results are written.
    has_unknown: bool,
}

impl Requeuer {
    pub(crate) fn new(world: &World, options: &Options, library: &Arc<Library>, membership: &Arc<Membership>) -> Self {
        Self {
            world: world.clone(),
            options: options.clone(),
            library: Arc::clone(library),
            membership: Arc::downgrade(membership),
        }
    }

    /// Runs until the engine is dropped.
    pub(crate) async fn run(self) {
        // An earlier process on this database may have left some.
        let mut next = NextCalls { take: Duration::ZERO, settle: Duration::ZERO, is_full: false, has_unknown: false };
        let mut held: Option<Held> = None;
        loop {
            let Some(member) = self.membership.upgrade().map(|membership| membership.member()) else { return };
            let mut holding = match held.take().filter(|held| held.node == member.node) {
                Some(holding) => holding,
                None => Held::new(member.node),
            };
            self.run_once(&member, &mut holding, &mut next).await;
            drop(member);
            self.wait(&mut holding, &mut next).await;
            held = Some(holding);
        }
    }

    /// Writes results, and takes more, as far as that is due.
    async fn run_once(&self, member: &Arc<Member>, held: &mut Held, next: &mut NextCalls) {
        let now = self.world.clock.monotonic();
        if !held.results.is_empty() && next.settle <= now {
            match self.settle(held).await {
                Ok(()) if next.is_full || next.has_unknown => (next.take, next.has_unknown) = (now, false),
                Ok(()) => {}
                Err(error) => {
                    next.has_unknown = true;
                    tracing::warn!(%error, "results of requeued dead letters cannot be written; trying again");
                    next.settle = self.world.clock.monotonic() + RETRY_DELAY;
                }
            }
        }
        if next.take > now {
            return;
        }
        let may_take = member.shared.may_dispatch(&self.world.clock) && !member.shared.is_stopping();
        let taken = if may_take { self.take(member, held).await } else { Ok(Taken::Later) };
        let now = self.world.clock.monotonic();
        next.is_full = matches!(taken, Ok(Taken::Full));
        next.take = match taken {
            // The next results make room.
            Ok(Taken::All | Taken::Full) => now + POLL_INTERVAL,
            Ok(Taken::Some) => now,
            Ok(Taken::Later) => now + RETRY_DELAY,
            Err(Error::Fenced(_)) => {
                member.shared.fence();
                now + RETRY_DELAY
            }
            Err(error) => {
                tracing::warn!(%error, "queued dead letters cannot be taken; trying again");
                now + RETRY_DELAY
            }
        };
    }

    /// Waits until something is to be done.
    async fn wait(&self, held: &mut Held, next: &mut NextCalls) {
        let mut due = next.take;
        if !held.results.is_empty() {
            due = due.min(next.settle);
        }
        let clock = &self.world.clock;
        let pause = due.saturating_sub(clock.monotonic());
        let sleep = std::pin::pin!(self.world.sleep(pause));
        let woken = std::pin::pin!(self.world.dead_letters.woken());
        let is_woken = {
            let work = std::pin::pin!(held.work());
            let other = future::select(work, sleep);
            matches!(future::select(woken, other).await, future::Either::Left(_))
        };
        if is_woken {
            next.take = clock.monotonic();
        }
    }

    async fn settle(&self, held: &mut Held) -> Result<()> {
        let results = &held.results;
        self.world.dead_letters.store().settle_letters(held.node, results).await?;
        for result in results {
            if let DeadLetterOutcome::Performed(attempts) = &result.outcome {
                let is_delivered = attempts.last().is_some_and(DeadLetterAttempt::is_delivered);
                tracing::info!(letter = %result.id, is_delivered, "a dead letter was requeued");
            }
        }
        held.settled();
        Ok(())
    }

    /// Takes dead letters and notices, and begins to perform them.
    async fn take(&self, member: &Arc<Member>, held: &mut Held) -> Result<Taken> {
        let now = self.world.clock.now();
        let age = i64::try_from(NOTICE_AGE_MAX.as_micros()).unwrap_or(i64::MAX);
        let notices = self.world.dead_letters.notices().cloned();
        let claim = DeadLetterClaim {
            letters_max: held.room(),
            held: held.letters(),
            crowded: held.crowded(),
            crowded_targets: held.crowded_targets(),
            notices_max: if notices.is_some() { held.notice_room() } else { 0 },
            held_notices: held.notices(),
            notices_since: Timestamp::from_micros(now.micros().saturating_sub(age)),
        };
        if claim.letters_max == 0 && claim.notices_max == 0 {
            return Ok(Taken::Full);
        }
        let taken = self.world.dead_letters.store().take_letters(member.node, &claim).await?;
        let is_full = |taken: usize, most: usize| most > 0 && taken == most;
        let has_letters = is_full(taken.letters.len(), claim.letters_max);
        let has_notices = is_full(taken.notices.len(), claim.notices_max);
        for row in taken.letters {
            let (id, target) = (row.letter.id, LetterTarget::from_letter(&row.letter));
            held.add_letter(id, target, Box::pin(self.perform(member, row)));
        }
        for row in taken.notices {
            let Some(notices) = &notices else { continue };
            held.add_notice(row.letter.id, Box::pin(send_notice(self.world.clone(), Arc::clone(notices), row.letter)));
        }
        // Notices that hang delay no requeue.
        if has_letters && held.room() > 0 || has_notices && held.notice_room() > 0 {
            return Ok(Taken::Some);
        }
        let lacks_notice_room = notices.is_some() && held.notice_room() == 0;
        let is_crowded = !held.crowded().is_empty() || !held.crowded_targets().is_empty();
        let lacks_room = held.room() == 0 || is_crowded || lacks_notice_room;
        Ok(if lacks_room { Taken::Full } else { Taken::All })
    }

    /// Performs a requeue to its end.
    fn perform(&self, member: &Arc<Member>, row: DeadLetterRow) -> impl Future<Output = DeadLetterResult> + use<> {
        let performance = Performance {
            world: self.world.clone(),
            options: self.options.clone(),
            library: Arc::clone(&self.library),
            member: Arc::clone(member),
        };
        async move {
            let (workspace, id) = (row.letter.workspace, row.letter.id);
            let (workflow, kind) = (row.letter.workflow.clone(), row.letter.kind.clone());
            let attempts = performance.perform(row.letter).await;
            if attempts.last().is_some_and(DeadLetterAttempt::is_delivered) {
                let (workflow, kind) = (workflow.as_deref(), kind.as_str());
                let outcome = EventOutcome::Requeued;
                performance.world.observe.event_ended(&EndedEvent { workflow, kind, outcome });
            }
            let at = performance.world.clock.now();
            DeadLetterResult { workspace, id, at, outcome: DeadLetterOutcome::Performed(attempts) }
        }
    }
}

/// Whether more dead letters wait in the database.
enum Taken {
    /// None.
    All,
    /// Some, and the node has room for them.
    Some,
    /// Perhaps some, for which the node has no room.
    Full,
    /// The node may not take any now.
    Later,
}

/// Sends the notice of a dead letter, up to three times.
async fn send_notice(world: World, notices: Arc<dyn Notices>, letter: DeadLetter) -> DeadLetterResult {
    let notice = Notice::new(&letter);
    let mut outcome = DeadLetterOutcome::NotNotified;
    let mut delays = NOTICE_DELAYS.into_iter();
    loop {
        let Err(error) = notices.send(&notice).await else {
            outcome = DeadLetterOutcome::Notified;
            break;
        };
        let Some(delay) = delays.next() else {
            tracing::warn!(letter = %letter.id, error, "operators could not be notified of a dead letter");
            break;
        };
        world.sleep(delay).await;
    }
    DeadLetterResult { workspace: letter.workspace, id: letter.id, at: world.clock.now(), outcome }
}
