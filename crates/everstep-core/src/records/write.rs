//! The verbs of records: set, delete, increment, expire.

use std::time::Duration;

use serde_json::{Number, Value};

use super::change::Effect;
use super::failure::OpFailure;
use super::fold::Draft;
use super::limits::INCREMENTED_BYTES_MAX;
use super::op::Verb;
use super::output::{DeleteOutput, IncrementOutput, SetOutput, to_payload};
use super::record::{Record, RecordId, ValueType};
use super::requests::{DeleteRequest, ExpireRequest, IncrementRequest, SetRequest};
use crate::ids::RunId;
use crate::payload::Payload;
use crate::planted::{self, Bug};
use crate::time::Timestamp;

pub(super) fn set(draft: &mut Draft<'_>, request: &SetRequest) -> Result<Payload, OpFailure> {
    let current = draft.namespace.live_record(&request.key, draft.now);
    check_state(current, request.if_revision, request.if_change)?;
    let value_type = ValueType::choose(request.value_type, &request.value)?;
    let expires_at = request.ttl_seconds.map(|seconds| expiry(draft.now, seconds));
    let is_new = current.is_none();
    let (revision, change) = put(draft, Verb::Set, &request.key, request.value.clone(), value_type, expires_at);
    Ok(to_payload(&SetOutput { revision, change, created: is_new }))
}

pub(super) fn delete(draft: &mut Draft<'_>, request: &DeleteRequest) -> Result<Payload, OpFailure> {
    let current = draft.namespace.live_record(&request.key, draft.now);
    check_state(current, request.if_revision, request.if_change)?;
    let deleted = current.is_some();
    if deleted {
        draft.namespace.delete_record(&request.key);
        draft.record_change(Verb::Delete, Effect::Deleted(request.key.clone()));
    }
    Ok(to_payload(&DeleteOutput { deleted }))
}

pub(super) fn increment(draft: &mut Draft<'_>, request: &IncrementRequest) -> Result<Payload, OpFailure> {
    let current = draft.namespace.live_record(&request.key, draft.now);
    let (base, expires_at) = match current {
        Some(record) => (stored_number(record)?, record.expires_at),
        None => (request.initial.clone(), request.ttl_seconds.map(|seconds| expiry(draft.now, seconds))),
    };
    let sum = add(&base, &request.by)?;
    let value = Payload::from(Value::Number(sum.clone()));
    let (revision, change) = put(draft, Verb::Increment, &request.key, value, ValueType::Number, expires_at);
    Ok(to_payload(&IncrementOutput { value: sum, revision, change }))
}

/// Deletes an expired record, unless it was written since the sweeper has seen it.
pub(super) fn expire(draft: &mut Draft<'_>, request: &ExpireRequest) -> Payload {
    let is_due = |record: &&Record| record.change == request.change && !record.is_live(draft.now);
    let due = draft.namespace.record(&request.key).filter(is_due);
    if let Some(record) = due.filter(|_| planted::is_planted(Bug::ExpiredRecordRevived)) {
        let change = draft.namespace.next_change();
        let revived = Record { expires_at: None, revision: record.revision + 1, change, ..record.clone() };
        draft.namespace.put_record(revived.clone());
        draft.record_change(Verb::Set, Effect::Written(revived));
        return to_payload(&DeleteOutput { deleted: true });
    }
    let deleted = due.is_some();
    if deleted {
        draft.namespace.delete_record(&request.key);
        draft.record_change(Verb::Expire, Effect::Deleted(request.key.clone()));
    }
    to_payload(&DeleteOutput { deleted })
}

/// Writes a record. Returns its revision and the number of its change.
fn put(
    draft: &mut Draft<'_>,
    verb: Verb,
    key: &str,
    value: Payload,
    value_type: ValueType,
    expires_at: Option<Timestamp>,
) -> (u64, u64) {
    let change = draft.namespace.next_change();
    let before =
        draft.namespace.live_record(key, draft.now).map(|record| (record.id, record.revision, record.created_at));
    let (id, revision, created_at) = match before {
        Some((id, revision, created_at)) => (id, revision + 1, created_at),
        None => (new_id(draft), 1, draft.now),
    };
    let record = Record {
        key: key.to_owned(),
        id,
        bytes: value.size(),
        value: Some(value),
        value_type,
        revision,
        change,
        expires_at,
        run: draft.op.author.run,
        step: draft.op.author.step.clone(),
        created_at,
        updated_at: draft.now,
    };
    draft.namespace.put_record(record.clone());
    draft.record_change(verb, Effect::Written(record));
    (revision, change)
}

fn new_id(draft: &mut Draft<'_>) -> RecordId {
    let random = draft.next_random();
    RecordId(RunId::new(draft.now, random).uuid())
}

fn expiry(now: Timestamp, seconds: u64) -> Timestamp {
    now.plus(Duration::from_secs(seconds))
}

/// Compares a record with what the op expects.
pub(super) fn check_state(
    current: Option<&Record>,
    if_revision: Option<u64>,
    if_change: Option<u64>,
) -> Result<(), OpFailure> {
    let revision = current.map_or(0, |record| record.revision);
    let change = current.map_or(0, |record| record.change);
    let expectations = [("revision", if_revision, revision), ("change", if_change, change)];
    for (name, expected, stored) in expectations {
        let message = match (expected, current) {
            (Some(expected), _) if expected == stored => continue,
            (None, _) => continue,
            (Some(0), Some(_)) => format!("the record exists, with revision {revision}"),
            (Some(expected), None) => format!("the record does not exist; {name} {expected} was expected"),
            (Some(expected), Some(_)) if name == "revision" => {
                format!("the record has revision {revision}, and not {expected}")
            }
            (Some(expected), Some(_)) => {
                format!("the record has {name} {stored} and revision {revision}; {name} {expected} was expected")
            }
        };
        return Err(OpFailure::conflict(message, revision));
    }
    Ok(())
}

/// The number in a record.
fn stored_number(record: &Record) -> Result<Number, OpFailure> {
    let number = match &record.value {
        Some(value) if value.size() <= INCREMENTED_BYTES_MAX => value.value().as_number().cloned(),
        _ => None,
    };
    number.ok_or_else(|| {
        OpFailure::invalid(format!(
            "the value of key {:?} is not a number of at most {INCREMENTED_BYTES_MAX} characters, so it cannot be \
             incremented",
            record.key
        ))
    })
}

/// The sum of two numbers: exact for two integers, otherwise floating point.
fn add(one: &Number, other: &Number) -> Result<Number, OpFailure> {
    if let (Some(one), Some(other)) = (integer(one), integer(other)) {
        let sum = i64::try_from(one + other);
        return sum.map(Number::from).map_err(|_| {
            OpFailure::invalid(format!(
                "{one} plus {other} exceeds the integers of 64 bits ({} to {})",
                i64::MIN,
                i64::MAX
            ))
        });
    }
    let sum = one.as_f64().zip(other.as_f64()).map(|(one, other)| one + other);
    sum.and_then(Number::from_f64)
        .ok_or_else(|| OpFailure::invalid(format!("{one} plus {other} is not a finite number")))
}

fn integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}
