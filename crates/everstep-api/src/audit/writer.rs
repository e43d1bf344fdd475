//! Writes audit rows, at once or in batches.

use std::sync::Arc;
use std::time::Duration;

use everstep_store::{AccessStore, AuditRow};
use metrics::Counter;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::metrics::Meters;

/// A queued row is written after this time at the latest.
const BATCH_DELAY: Duration = Duration::from_millis(200);
/// Queued rows; when the queue is full, requests wait.
const QUEUED_ROWS_MAX: usize = 10_000;
/// Rows of one statement.
const BATCH_ROWS_MAX: usize = 1_000;
/// The pause between two attempts while the database is unavailable.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// A handle to the audit. Cheap to clone.
#[derive(Clone)]
pub struct Audit {
    store: Arc<dyn AccessStore>,
    queue: mpsc::Sender<Job>,
    /// Counts rows that will never be written.
    lost: Counter,
}

enum Job {
    Row(Box<AuditRow>),
    Flush(oneshot::Sender<()>),
}

impl Audit {
    /// Starts the writer. It ends when the last handle is dropped.
    pub fn start(store: Arc<dyn AccessStore>, meters: &Meters) -> Self {
        let (queue, jobs) = mpsc::channel(QUEUED_ROWS_MAX);
        let lost = meters.audit_lost();
        tokio::spawn(run(Arc::clone(&store), jobs, lost.clone()));
        Self { store, queue, lost }
    }

    /// Writes a row before it returns. If the database is unavailable, the row is queued.
    pub(crate) async fn write(&self, row: AuditRow) {
        if let Err(error) = self.store.add_audit(std::slice::from_ref(&row)).await {
            tracing::warn!(%error, action = row.action, "an audit row could not be written; it is queued");
            self.enqueue(row).await;
        }
    }

    /// Queues a row.
    pub(crate) async fn enqueue(&self, row: AuditRow) {
        if let Err(mpsc::error::SendError(Job::Row(row))) = self.queue.send(Job::Row(Box::new(row))).await {
            count_lost(&self.lost, std::slice::from_ref(&*row), "the writer of the audit has ended");
        }
    }

    /// Returns when all rows that were queued before are written.
    pub async fn flush(&self) {
        let (done, is_done) = oneshot::channel();
        if self.queue.send(Job::Flush(done)).await.is_ok() {
            // An error means that the writer has ended, and there is nothing to wait for.
            let _ = is_done.await;
        }
    }
}

async fn run(store: Arc<dyn AccessStore>, mut jobs: mpsc::Receiver<Job>, lost: Counter) {
    let mut rows = Vec::new();
    while let Some(first) = jobs.recv().await {
        let end = Instant::now() + BATCH_DELAY;
        let mut next = Some(first);
        let mut flushed = None;
        while let Some(job) = next.take() {
            match job {
                Job::Row(row) => rows.push(*row),
                Job::Flush(done) => {
                    flushed = Some(done);
                    break;
                }
            }
            if rows.len() < BATCH_ROWS_MAX {
                next = tokio::time::timeout_at(end, jobs.recv()).await.ok().flatten();
            }
        }
        write(&*store, &rows, &lost).await;
        rows.clear();
        if let Some(done) = flushed {
            // The caller may have stopped waiting.
            let _ = done.send(());
        }
    }
}

/// Writes rows, however long it takes. Only a row that the database rejects permanently is lost.
async fn write(store: &dyn AccessStore, rows: &[AuditRow], lost: &Counter) {
    if rows.is_empty() {
        return;
    }
    loop {
        match store.add_audit(rows).await {
            Ok(()) => return,
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, rows = rows.len(), "the audit waits for the database; rows are queued");
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            Err(error) if rows.len() == 1 => return count_lost(lost, rows, &error.to_string()),
            Err(_) => break,
        }
    }
    for row in rows {
        Box::pin(write(store, std::slice::from_ref(row), lost)).await;
    }
}

/// Logs the rows that the audit will not contain.
fn count_lost(lost: &Counter, rows: &[AuditRow], why: &str) {
    lost.increment(rows.len() as u64);
    for row in rows {
        tracing::error!(
            why,
            workspace = %row.workspace,
            at = %row.at,
            actor = row.actor.to_text(),
            action = row.action,
            target = row.target,
            details = row.details.json(),
            "an audit row is lost"
        );
    }
}
