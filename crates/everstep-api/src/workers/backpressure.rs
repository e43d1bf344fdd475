//! Slows down a worker that sends faster than the journal writes.

use everstep_engine::{Backlog, Engine, Session};

use super::limits::{REPORTS_WAIT_MAX, UNANSWERED_REPORTS_MAX, UNSEEN_MESSAGES_MAX, UNSENT_PARTS_MAX};
use crate::http::problem::Problem;

/// Waits while too many reports of a session are unanswered. Fails if the worker does not confirm messages.
pub(super) async fn wait_for_room(engine: &Engine, session: &Session) -> Result<(), Problem> {
    let Backlog { unanswered, unseen, unsent } = session.backlog();
    if unseen > UNSEEN_MESSAGES_MAX || unsent > UNSENT_PARTS_MAX {
        return Err(Problem::invalid(format!(
            "{unseen} messages were sent, and the worker has confirmed none of them"
        ))
        .hint("send `seen`, the number of the last message that was received without a gap"));
    }
    if unanswered > UNANSWERED_REPORTS_MAX {
        // The next request waits again for reports that are unanswered after this time. During the wait nothing is read
        // from the worker, so the wait must be shorter than the lease.
        let wait = REPORTS_WAIT_MAX.min(engine.worker_lease() / 3);
        let _ = tokio::time::timeout(wait, session.all_answered()).await;
    }
    Ok(())
}
