//! The retention of rows, and the number of them that one sweep deletes.

use std::time::Duration;

/// The minimum time for which the versions of a deleted workflow are kept, so that a start that has read one may begin.
pub(crate) const DELETED_VERSIONS_KEPT_MIN: Duration = Duration::from_secs(86_400);
/// The time for which the idempotency key of a change of a workflow is known.
pub(crate) const WORKFLOW_KEY_RETENTION: Duration = Duration::from_secs(86_400);
/// When a deleted workflow whose versions are still in use is checked again.
pub(crate) const DELETED_WORKFLOW_RECHECK_INTERVAL: Duration = Duration::from_secs(3_600);
/// The number of deleted workflows that one sweep checks.
pub(crate) const DELETED_WORKFLOWS_PER_SWEEP_MAX: usize = 10;
/// The number of rows of the audit that one sweep deletes for each run that it may delete.
pub(crate) const AUDIT_ROWS_PER_RUN_MAX: usize = 20;
/// The retention of rows of the audit.
pub(crate) const AUDIT_RETENTION: Duration = Duration::from_secs(365 * 86_400);
/// The time for which a key of a one-time link is listed after it has expired.
pub(crate) const SIGN_IN_KEY_RETENTION: Duration = Duration::from_secs(86_400);
/// The retention of the figures of minutes.
pub(crate) const RUN_STATS_RETENTION: Duration = Duration::from_secs(35 * 86_400);
/// The retention of inbox rows of ended or missing runs.
pub(crate) const INBOX_RETENTION: Duration = Duration::from_secs(3_600);
/// The time for which an unbound file is kept after it has expired: an item that binds it may be in flight.
pub(crate) const EXPIRED_FILE_RETENTION: Duration = Duration::from_secs(3_600);
/// When a bound file whose run has not ended is looked at again.
pub(crate) const BOUND_FILE_RECHECK_INTERVAL: Duration = Duration::from_secs(86_400);
/// The time for which a change of a run that exists is kept, beyond the time for which all changes are kept.
pub(crate) const CHANGE_POSTPONEMENT: Duration = Duration::from_secs(86_400);
