//! Callers who requeue dead letters, operators who are notified of them, and what must hold of both: a requeue that was
//! accepted is performed, a delivered letter was delivered, and operators were notified of every letter.

use std::ops::RangeInclusive;
use std::time::Duration;

use async_trait::async_trait;
use everstep_core::dead_letter::{DeadLetterAttempt, DeadLetterSource, DeadLetterStatus};
use everstep_core::ids::{DeadLetterId, WorkspaceId};
use everstep_engine::{Notice, Notices};
use everstep_handlers::Task;
use everstep_store::sqlite::Database;
use everstep_store::{ChangedLetters, DeadLetterFilter, DeadLetterQuery, DeadLetterRow};

use super::client::Client;
use super::executor::OUTSIDE;
use super::store::SimStore;

/// How often a dead letter is requeued: it keeps the first of its attempts only as long as they are few.
const REQUEUES_MAX: usize = 3;
/// The attempts of a requeue.
const REQUEUE_ATTEMPTS: usize = 3;
/// The attempts of a notice.
const NOTICE_ATTEMPTS: usize = 3;

/// The requests to requeue one dead letter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Requeues {
    sent: usize,
    /// Those whose reply was that the letter is queued. Others may have queued it too.
    accepted: usize,
}

impl Requeues {
    /// The possible numbers of attempts of a letter that had some before: each requeue adds one to three.
    pub(super) fn attempts_after(self, before: usize) -> RangeInclusive<usize> {
        before + self.accepted..=before + REQUEUE_ATTEMPTS * self.sent
    }
}

/// Operators who are notified, and sometimes cannot be reached.
pub(super) struct Operators {
    pub(super) store: SimStore,
}

#[async_trait]
impl Notices for Operators {
    async fn send(&self, notice: &Notice) -> Result<(), String> {
        let executor = &self.store.executor;
        let is_calm = self.store.ledger().is_calm;
        let (luck, millis) = executor.with_random(|random| (random.below(100), random.between(0, 1_500)));
        match luck {
            0..50 => executor.waver().await,
            _ => executor.sleep(Duration::from_millis(millis)).await,
        }
        let is_lost = !is_calm && luck % 10 < 4;
        let mut ledger = self.store.ledger();
        let (received, lost) = ledger.notices.entry(notice.job_id.clone()).or_default();
        *(if is_lost { lost } else { received }) += 1;
        if is_lost { Err("the operators cannot be reached".to_owned()) } else { Ok(()) }
    }
}

impl Client {
    /// Requeues dead letters of deliveries, all the time. In the calm half of them stay dead.
    pub(super) async fn requeue_letters(self) {
        loop {
            self.sleep(100, 4_000).await;
            let store = &self.judge.store;
            let is_calm = store.ledger().is_calm;
            let dead = DeadLetterFilter {
                status: Some(DeadLetterStatus::Dead),
                source: Some(DeadLetterSource::Delivery),
                ..DeadLetterFilter::default()
            };
            let Ok(letters) = store.letters(dead) else { continue };
            for DeadLetterRow { letter, .. } in letters {
                let is_wanted =
                    if is_calm { letter.id.uuid().as_u128().is_multiple_of(2) } else { self.executor.chance(40) };
                let mut ledger = store.ledger();
                let requeues = ledger.requeues.entry(letter.id).or_default();
                if !is_wanted || requeues.sent == REQUEUES_MAX {
                    continue;
                }
                requeues.sent += 1;
                drop(ledger);
                self.executor.spawn(OUTSIDE, self.clone().requeue(letter.id));
            }
        }
    }

    /// Requeues one dead letter at any server, as its API does.
    async fn requeue(self, id: DeadLetterId) {
        let server = self.server();
        let queued = server.ask(|engine| async move {
            let (letters, now) = (engine.dead_letters(), engine.world().clock.now());
            let queued =
                letters.store().queue_letters(WorkspaceId::DEFAULT, &DeadLetterFilter::by_id(id), now, 1).await;
            letters.wake();
            queued
        });
        let queued = queued.await;
        self.executor.note(|| format!("dead letter {id} is requeued by server {}: {queued:?}", server.index));
        if let Some(Ok(ChangedLetters { count: 1, .. })) = queued {
            self.judge.store.ledger().requeues.entry(id).or_default().accepted += 1;
        }
    }
}

impl SimStore {
    pub(super) fn letters(&self, filter: DeadLetterFilter) -> Result<Vec<DeadLetterRow>, String> {
        let query = DeadLetterQuery { filter, before: None, limit: 10_000 };
        self.direct(|db| db.list_letters(WorkspaceId::DEFAULT, &query)).map_err(|error| error.to_string())
    }

    /// Whether a task performs a requeue: its run has given it up.
    pub(super) fn is_requeued(&self, task: &Task) -> bool {
        let filter = DeadLetterFilter {
            run: Some(task.run),
            status: Some(DeadLetterStatus::Queued),
            ..DeadLetterFilter::default()
        };
        let letters = self.letters(filter).unwrap_or_default();
        letters.iter().any(|row| row.letter.step.as_ref() == Some(&task.step))
    }

    /// How many dead letters no node has to perform, or to send a notice of; and whether these are all.
    pub(super) fn settled_letters(&self) -> (u64, bool) {
        let sql = "select coalesce(sum((status <> 'queued') + (is_notice_due = 0)), 0),
            coalesce(min(status <> 'queued' and is_notice_due = 0), 1) from dead_letters";
        let read = |db: &mut Database| {
            db.connection().query_row(sql, [], |row| Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?)))
        };
        self.direct(read).unwrap_or_default()
    }
}

/// Checks the dead letters at the end of a simulation.
pub(super) fn check(store: &SimStore) -> Result<(), String> {
    let letters = store.letters(DeadLetterFilter::default())?;
    let ledger = store.ledger();
    for row in letters {
        let (id, last) = (row.letter.id, row.letter.attempts.last());
        let is_delivered = last.is_some_and(DeadLetterAttempt::is_delivered);
        let requeues = ledger.requeues.get(&id).map_or(0, |requeues| requeues.sent);
        let is_right = match row.status {
            DeadLetterStatus::Dead => !is_delivered,
            DeadLetterStatus::Delivered => is_delivered && requeues > 0,
            DeadLetterStatus::Queued | DeadLetterStatus::Discarded => false,
        };
        if !is_right {
            return Err(format!("dead letter {id} is {} after {requeues} requeues: {last:?}", row.status.as_str()));
        }
        let attempt = (row.letter.delivery.clone(), row.letter.attempts.len());
        if is_delivered && !ledger.delivered.contains(&attempt) {
            return Err(format!("dead letter {id} is delivered, and its target has not received it"));
        }
        let (received, lost) = ledger.notices.get(&id.to_string()).copied().unwrap_or_default();
        let is_notified = match row.notified_at {
            Some(_) => received > 0,
            None => lost >= NOTICE_ATTEMPTS,
        };
        if !is_notified {
            let notified = row.notified_at;
            return Err(format!("dead letter {id}: notified at {notified:?}, {received} received, {lost} lost"));
        }
    }
    Ok(())
}
