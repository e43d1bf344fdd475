//! Collects rows as JSON, within the limits of their query.

use everstep_core::failure::{Failure, code};
use everstep_core::limits::PAYLOAD_BYTES;
use serde_json::json;

use super::query::{Limits, OnLimit};
use super::result::{Field, QueryResult};

/// Bytes of a result besides its rows and fields.
const ENVELOPE_BYTES: usize = 128;

/// The rows so far.
pub(super) struct Rows {
    json: String,
    count: usize,
    fields: Vec<Field>,
    max_rows: usize,
    max_bytes: usize,
    on_limit: OnLimit,
    /// Whether the caller's limit is the lower one: further rows are then cut off, whatever `on_limit` is.
    wants_few: bool,
    is_cut: bool,
}

impl Rows {
    /// No rows yet. `most` is a limit of the caller: rows beyond it are cut off.
    pub(super) fn new(limits: Limits, most: Option<u32>, fields: Vec<Field>) -> Self {
        let rows_left = PAYLOAD_BYTES.saturating_sub(ENVELOPE_BYTES + json!(fields).to_string().len());
        Self {
            json: String::from("["),
            count: 0,
            fields,
            max_rows: limits.rows.min(most.unwrap_or(limits.rows)) as usize,
            max_bytes: rows_left.min(limits.bytes as usize),
            on_limit: limits.on_limit,
            wants_few: most.is_some_and(|most| most <= limits.rows),
            is_cut: false,
        }
    }

    /// The number of further rows that are allowed.
    pub(super) fn rows_left(&self) -> usize {
        self.max_rows - self.count
    }

    /// The number of further bytes that are allowed.
    pub(super) fn bytes_left(&self) -> usize {
        self.max_bytes.saturating_sub(self.json.len())
    }

    /// Adds one row, written as JSON. Returns whether more rows are allowed.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut String) -> Result<(), Failure>) -> Result<bool, Failure> {
        if self.count == self.max_rows && self.wants_few {
            self.is_cut = true;
            return Ok(false);
        }
        if self.count == self.max_rows {
            return self.limit(&format!("the result has more than {} rows", self.max_rows));
        }
        let before = self.json.len();
        if self.count > 0 {
            self.json.push(',');
        }
        write(&mut self.json)?;
        // The closing bracket needs a byte as well.
        if self.json.len() + 1 > self.max_bytes {
            self.json.truncate(before);
            return self.limit(&format!("the rows have more than {} bytes as JSON", self.max_bytes));
        }
        self.count += 1;
        Ok(true)
    }

    /// The result of the query.
    pub(super) fn finish(mut self, changed: Option<u64>) -> QueryResult {
        self.json.push(']');
        let changed = changed.filter(|_| self.fields.is_empty() && self.count == 0);
        let row_count = changed.unwrap_or(self.count as u64);
        QueryResult { rows: self.json, row_count, fields: self.fields, truncated: self.is_cut }
    }

    fn limit(&mut self, message: &str) -> Result<bool, Failure> {
        match self.on_limit {
            OnLimit::Cut => {
                self.is_cut = true;
                Ok(false)
            }
            OnLimit::Error => Err(too_large(message)),
        }
    }
}

/// The failure of a query whose result exceeds its limits.
pub(super) fn too_large(message: &str) -> Failure {
    let help = "select less, raise `limits`, or set `limits.onLimit` to \"cut\"";
    Failure::fatal(code::PAYLOAD_TOO_LARGE, format!("{message}; {help}"))
}

/// Writes a text as JSON.
pub(super) fn write_text(out: &mut String, text: &str) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

/// Writes a row of named values. The writer of a value receives its index.
pub(super) fn write_row(
    out: &mut String,
    fields: &[Field],
    mut write: impl FnMut(&mut String, usize) -> Result<(), Failure>,
) -> Result<(), Failure> {
    out.push('{');
    for (place, field) in fields.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        write_text(out, &field.name);
        out.push(':');
        write(out, place)?;
    }
    out.push('}');
    Ok(())
}

/// A row is an object, so no two columns may have the same name.
pub(super) fn check_names(fields: &[Field]) -> Result<(), Failure> {
    let twice =
        fields.iter().enumerate().find(|(place, field)| fields[..*place].iter().any(|other| other.name == field.name));
    match twice {
        None => Ok(()),
        Some((_, field)) => {
            let message = format!("two columns are named {:?}: give one of them another name with `as`", field.name);
            Err(Failure::fatal(super::QUERY_ERROR, message))
        }
    }
}
