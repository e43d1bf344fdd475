//! How long rows are kept, and how many of them one sweep deletes.

use std::time::Duration;

/// How long the versions of a deleted workflow are kept at least, so that a start that has read one may begin.
pub(crate) const DELETED_VERSIONS_KEPT_MIN: Duration = Duration::from_secs(86_400);
/// When a deleted workflow whose versions are still in use is checked again.
pub(crate) const DELETED_WORKFLOW_RECHECK_INTERVAL: Duration = Duration::from_secs(3_600);
/// How many deleted workflows one sweep checks.
pub(crate) const DELETED_WORKFLOWS_PER_SWEEP_MAX: usize = 10;
/// How many rows of the audit one sweep deletes for each run that it may delete.
pub(crate) const AUDIT_ROWS_PER_RUN_MAX: usize = 20;
/// How long rows of the audit are kept.
pub(crate) const AUDIT_RETENTION: Duration = Duration::from_secs(365 * 86_400);
/// How long inbox rows of ended or missing runs are kept.
pub(crate) const INBOX_RETENTION: Duration = Duration::from_secs(3_600);
