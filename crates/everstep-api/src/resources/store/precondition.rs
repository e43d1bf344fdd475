//! The state that a request requires of a record.

use axum::http::StatusCode;
use everstep_core::failure::code;
use everstep_core::records::OpFailure;

use super::apply::refuse;
use crate::http::headers::{IfAbsent, IfMatch};
use crate::http::problem::Problem;

/// At most one of the headers `If-Match` and `If-None-Match` and the field `ifRevision`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precondition {
    Anything,
    /// A header: the change that must have written the record; 0 if the record must be absent.
    Change(u64),
    /// The field: the revision that the record must have; 0 if the record must be absent.
    Revision(u64),
}

impl Precondition {
    pub(super) fn read(
        if_match: IfMatch,
        if_absent: Option<IfAbsent>,
        if_revision: Option<u64>,
    ) -> Result<Self, Problem> {
        let absent = if_absent.is_some_and(IfAbsent::is_given).then_some(0);
        match (if_match.into_inner(), absent, if_revision) {
            (None, None, None) => Ok(Self::Anything),
            (Some(change), None, None) | (None, Some(change), None) => Ok(Self::Change(change)),
            (None, None, Some(revision)) => Ok(Self::Revision(revision)),
            _ => Err(Problem::invalid(
                "the request has more than one precondition; send one of If-Match, If-None-Match and ifRevision",
            )),
        }
    }

    pub(super) fn if_change(self) -> Option<u64> {
        if let Self::Change(change) = self { Some(change) } else { None }
    }

    pub(super) fn if_revision(self) -> Option<u64> {
        if let Self::Revision(revision) = self { Some(revision) } else { None }
    }

    /// The problem of a write that failed. A header that does not hold has the code that it has on all routes.
    pub(super) fn refuse(self, failure: OpFailure) -> Problem {
        match (self, failure.code) {
            (Self::Change(_), code::CONFLICT) => {
                let problem = Problem::new(StatusCode::CONFLICT, "CONCURRENCY_ERROR", failure.message);
                problem.hint("read the record again, and send its ETag if the request still applies")
            }
            _ => refuse(failure),
        }
    }
}
