//! Writes rows, at once or gathered.

use std::sync::Arc;
use std::time::Duration;

use everstep_store::{AccessStore, AuditRow};
use metrics::Counter;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::metrics::Meters;

/// A row is written after this long at the latest.
const GATHERED: Duration = Duration::from_millis(200);
/// Rows that wait at once; with more, requests wait too.
const ROOM: usize = 10_000;
/// Rows of one statement.
const BATCH: usize = 1_000;
/// Between two tries while the database is away.
const PAUSE: Duration = Duration::from_millis(500);

/// A handle to the audit. Cheap to clone.
#[derive(Clone)]
pub struct Audit {
    store: Arc<dyn AccessStore>,
    waiting: mpsc::Sender<Message>,
    /// Counts rows that will never be written.
    lost: Counter,
}

enum Message {
    Row(Box<AuditRow>),
    Flush(oneshot::Sender<()>),
}

impl Audit {
    /// Begins to write. It ends when the last handle is gone.
    pub fn start(store: Arc<dyn AccessStore>, meters: &Meters) -> Self {
        let (waiting, messages) = mpsc::channel(ROOM);
        let lost = meters.audit_lost();
        tokio::spawn(run(Arc::clone(&store), messages, lost.clone()));
        Self { store, waiting, lost }
    }

    /// Writes a row before it returns. If the database is away just then, the row is gathered.
    pub(crate) async fn write(&self, row: AuditRow) {
        if let Err(error) = self.store.add_audit(std::slice::from_ref(&row)).await {
            tracing::warn!(%error, action = row.action, "a row of the audit is written later");
            self.gather(row).await;
        }
    }

    /// Has a row written soon.
    pub(crate) async fn gather(&self, row: AuditRow) {
        if let Err(mpsc::error::SendError(Message::Row(row))) = self.waiting.send(Message::Row(Box::new(row))).await {
            lose(&self.lost, std::slice::from_ref(&*row), "nothing writes the audit any more");
        }
    }

    /// Returns once everything that was gathered until now is written.
    pub async fn flush(&self) {
        let (done, is_done) = oneshot::channel();
        if self.waiting.send(Message::Flush(done)).await.is_ok() {
            // A closed channel means the same.
            let _ = is_done.await;
        }
    }
}

async fn run(store: Arc<dyn AccessStore>, mut messages: mpsc::Receiver<Message>, lost: Counter) {
    let mut rows = Vec::new();
    while let Some(first) = messages.recv().await {
        let end = Instant::now() + GATHERED;
        let mut next = Some(first);
        let mut flushed = None;
        while let Some(message) = next.take() {
            match message {
                Message::Row(row) => rows.push(*row),
                Message::Flush(done) => {
                    flushed = Some(done);
                    break;
                }
            }
            if rows.len() < BATCH {
                next = tokio::time::timeout_at(end, messages.recv()).await.ok().flatten();
            }
        }
        write(&*store, &rows, &lost).await;
        rows.clear();
        if let Some(done) = flushed {
            // Whoever asked may have gone.
            let _ = done.send(());
        }
    }
}

/// Writes rows, however long it takes. A row that the database never takes is lost alone.
async fn write(store: &dyn AccessStore, rows: &[AuditRow], lost: &Counter) {
    if rows.is_empty() {
        return;
    }
    loop {
        match store.add_audit(rows).await {
            Ok(()) => return,
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, rows = rows.len(), "the audit waits for the database");
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) if rows.len() == 1 => return lose(lost, rows, &error.to_string()),
            Err(_) => break,
        }
    }
    for row in rows {
        Box::pin(write(store, std::slice::from_ref(row), lost)).await;
    }
}

/// Tells the log what the audit will not have.
fn lose(lost: &Counter, rows: &[AuditRow], why: &str) {
    lost.increment(rows.len() as u64);
    for row in rows {
        tracing::error!(
            why,
            workspace = %row.workspace,
            at = %row.at,
            actor = row.actor,
            action = row.action,
            target = row.target,
            details = row.details.json(),
            "the audit has lost a row"
        );
    }
}
