//! A transaction: checks, then writes, all or nothing.

use super::failure::OpFailure;
use super::fold::Draft;
use super::output::{TransactOutput, to_payload};
use super::record::is_equal;
use super::requests::{CheckRequest, TransactRequest, WriteRequest};
use super::write::check_state;
use super::{link_writes, write};
use crate::payload::Payload;

/// All checks see the state before the transaction; each write sees those before it.
pub(super) fn transact(draft: &mut Draft<'_>, request: &TransactRequest) -> Result<Payload, OpFailure> {
    let first = draft.namespace.next_change();
    for (index, check) in request.checks.iter().enumerate() {
        evaluate(draft, check).map_err(|failure| failure.at_part("check", index))?;
    }
    let mut results = Vec::with_capacity(request.writes.len());
    for (index, write) in request.writes.iter().enumerate() {
        let written = match write {
            WriteRequest::Set(request) => write::set(draft, request),
            WriteRequest::Delete(request) => write::delete(draft, request),
            WriteRequest::Increment(request) => write::increment(draft, request),
            WriteRequest::Upsert(request) => Ok(link_writes::upsert(draft, request)),
            WriteRequest::Unlink(request) => link_writes::unlink(draft, request),
        };
        results.push(written.map_err(|failure| failure.at_part("write", index))?);
    }
    let next = draft.namespace.next_change();
    let changes = (next > first).then_some([first, next - 1]);
    Ok(to_payload(&TransactOutput { changes, results }))
}

fn evaluate(draft: &Draft<'_>, check: &CheckRequest) -> Result<(), OpFailure> {
    let current = draft.namespace.live_record(&check.key, draft.now);
    check_state(current, check.revision, check.change)?;
    let revision = current.map_or(0, |record| record.revision);
    match (check.exists, current.is_some()) {
        (Some(true), false) => {
            return Err(OpFailure::conflict(format!("key {:?} does not exist", check.key), revision));
        }
        (Some(false), true) => {
            let message = format!("key {:?} exists, with revision {revision}", check.key);
            return Err(OpFailure::conflict(message, revision));
        }
        _ => {}
    }
    let Some(expected) = &check.equals else { return Ok(()) };
    let stored = current.and_then(|record| record.value.as_ref());
    if stored.is_some_and(|stored| is_equal(stored, expected)) {
        return Ok(());
    }
    Err(OpFailure::conflict(format!("key {:?} has another value, with revision {revision}", check.key), revision))
}
