//! The disk of the server, which only its errors report.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::errors::StatementError;
use crate::error::Error;
use crate::space::Space;

/// The time after which a report is old: new work is then sent again, and fails again if the disk is still full.
const REPORT_PERIOD: Duration = Duration::from_secs(5);

/// The last report of a full disk.
#[derive(Default)]
pub(super) struct FullReport(Mutex<Option<(Instant, String)>>);

impl FullReport {
    /// Records that a statement has failed, if the reason is a full disk.
    pub(super) fn note(&self, failure: &StatementError) {
        if let Some(Error::Full(reason)) = failure.database().map(super::errors::from_db_error) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), reason));
        }
    }

    /// The space, by the reports of the last five seconds.
    pub(super) fn space(&self) -> Space {
        let report = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = report.as_ref().filter(|(at, _)| at.elapsed() < REPORT_PERIOD);
        Space { free_bytes: None, refusal: recent.map(|(_, reason)| reason.clone()) }
    }
}
