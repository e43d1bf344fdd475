//! Columns of a row in the types of the core.

use everstep_core::failure::Failure;
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::error::{Error, Result};
use crate::item::MachinePlace;
use crate::pack;

/// A column. A value of another type was not written by Everstep.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T> {
    row.try_get(column).map_err(|error| Error::Corrupt(super::errors::describe(&error)))
}

/// An array, which is null when it is empty.
pub(super) fn list<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<Vec<T>> {
    Ok(get::<Option<Vec<T>>>(row, column)?.unwrap_or_default())
}

pub(super) fn seq(row: &Row, column: usize) -> Result<u64> {
    checked_seq(get(row, column)?)
}

pub(super) fn checked_seq(seq: i64) -> Result<u64> {
    u64::try_from(seq).map_err(unreadable)
}

pub(super) fn time(row: &Row, column: usize) -> Result<Timestamp> {
    get(row, column).map(Timestamp::from_micros)
}

pub(super) fn optional_time(row: &Row, column: usize) -> Result<Option<Timestamp>> {
    Ok(get::<Option<i64>>(row, column)?.map(Timestamp::from_micros))
}

/// A number that is stored as `integer`.
pub(super) fn integer(row: &Row, column: usize) -> Result<u32> {
    u32::try_from(get::<i32>(row, column)?).map_err(unreadable)
}

/// A number that is stored as `bigint`.
pub(super) fn bigint(row: &Row, column: usize) -> Result<u32> {
    u32::try_from(get::<i64>(row, column)?).map_err(unreadable)
}

pub(super) fn status(row: &Row, column: usize) -> Result<Status> {
    get::<&str>(row, column)?.parse().map_err(|error: String| Error::Corrupt(error))
}

pub(super) fn failure(row: &Row, column: usize) -> Result<Option<Failure>> {
    let text: Option<&str> = get(row, column)?;
    text.map(|text| serde_json::from_str(text).map_err(unreadable)).transpose()
}

/// The place of a machine: its state, and its version in the column after it.
pub(super) fn machine(row: &Row, column: usize) -> Result<Option<MachinePlace>> {
    let (state, version_no) = (get::<Option<String>>(row, column)?, get::<Option<i32>>(row, column + 1)?);
    let Some((state, version_no)) = state.zip(version_no) else { return Ok(None) };
    Ok(Some(MachinePlace { state, version_no: u32::try_from(version_no).map_err(unreadable)? }))
}

/// A value that is stored as JSON text; none if a later release has written it in a form that this build cannot read.
pub(super) fn json<T: DeserializeOwned>(row: &Row, column: usize) -> Result<Option<T>> {
    Ok(get::<Option<&str>>(row, column)?.and_then(|text| serde_json::from_str(text).ok()))
}

pub(super) fn payload(text: String) -> Result<Payload> {
    Payload::from_json(text).map_err(unreadable)
}

pub(super) fn bytes_payload(bytes: &[u8]) -> Result<Payload> {
    payload(std::str::from_utf8(bytes).map_err(unreadable)?.to_owned())
}

/// The unpacked bytes of the column after the column of their codec.
pub(super) fn unpack(row: &Row, codec: usize) -> Result<Vec<u8>> {
    unpack_bytes(get(row, codec)?, get(row, codec + 1)?)
}

pub(super) fn unpack_bytes(codec: i16, bytes: &[u8]) -> Result<Vec<u8>> {
    pack::unpack(u8::try_from(codec).map_err(unreadable)?, bytes)
}

pub(super) fn unreadable(error: impl std::fmt::Display) -> Error {
    Error::Corrupt(error.to_string())
}
