//! Columns of a row in the types of the core.

use everstep_core::failure::Failure;
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use rusqlite::Row;
use rusqlite::types::Type;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::item::MachinePlace;

pub(super) fn seq(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let stored: i64 = row.get(column)?;
    u64::try_from(stored).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, stored))
}

pub(super) fn uuid(row: &Row<'_>, column: usize) -> rusqlite::Result<Uuid> {
    row.get(column).map(Uuid::from_bytes)
}

pub(super) fn optional_uuid(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Uuid>> {
    Ok(row.get::<_, Option<[u8; 16]>>(column)?.map(Uuid::from_bytes))
}

pub(super) fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    row.get(column).map(Timestamp::from_micros)
}

pub(super) fn optional_time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_micros))
}

pub(super) fn status(row: &Row<'_>, column: usize) -> rusqlite::Result<Status> {
    text(row, column)?.parse().map_err(|error: String| unreadable(column, Type::Text, error))
}

pub(super) fn failure(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Failure>> {
    let text: Option<String> = row.get(column)?;
    text.map(|text| serde_json::from_str(&text).map_err(|error| unreadable(column, Type::Text, error))).transpose()
}

/// The place of a machine: its state, and its version in the column after it.
pub(super) fn machine(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<MachinePlace>> {
    let (state, version_no) = (row.get::<_, Option<String>>(column)?, row.get::<_, Option<u32>>(column + 1)?);
    Ok(state.zip(version_no).map(|(state, version_no)| MachinePlace { state, version_no }))
}

/// A value that is stored as JSON text; none if a later release has written it in a form that this build cannot read.
pub(super) fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>> {
    let text: Option<&str> = row.get_ref(column)?.as_str_or_null()?;
    Ok(text.and_then(|text| serde_json::from_str(text).ok()))
}

pub(super) fn text<'a>(row: &'a Row<'_>, column: usize) -> rusqlite::Result<&'a str> {
    Ok(row.get_ref(column)?.as_str()?)
}

pub(super) fn text_payload(row: &Row<'_>, column: usize) -> rusqlite::Result<Payload> {
    Payload::from_json(row.get::<_, String>(column)?).map_err(|error| unreadable(column, Type::Text, error))
}

pub(super) fn payload(column: usize, bytes: Vec<u8>) -> rusqlite::Result<Payload> {
    let text = String::from_utf8(bytes).map_err(|error| unreadable(column, Type::Blob, error))?;
    Payload::from_json(text).map_err(|error| unreadable(column, Type::Blob, error))
}

fn unreadable(
    column: usize,
    stored: Type,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, stored, error.into())
}
