//! Lists of records: by key, in the order of bytes.

use serde::Deserialize;

use super::cursor::read_cursor;
use super::failure::OpFailure;
use super::limits::PAGE_ITEMS_DEFAULT;
use super::record::Record;
use super::requests::even_null;
use super::scan::Scan;
use super::text::{check_limit, check_name};
use crate::contains::contains_within;
use crate::meter::Meter;
use crate::payload::Payload;
use crate::time::Timestamp;

/// The input of `store.list`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListRequest {
    pub namespace: String,
    /// The beginning of the keys.
    #[serde(default)]
    pub prefix: Option<String>,
    /// What the values contain, as [`crate::contains::contains`] defines it.
    #[serde(default, rename = "match", deserialize_with = "even_null")]
    pub pattern: Option<Payload>,
    #[serde(default = "default_limit", deserialize_with = "crate::whole::number")]
    pub limit: usize,
    #[serde(default)]
    pub cursor: Option<String>,
    /// Whether the items contain their values.
    #[serde(default = "default_values")]
    pub values: bool,
}

impl ListRequest {
    /// Checks the input and makes a query of it.
    pub fn into_query(self) -> Result<RecordQuery, OpFailure> {
        let Self { namespace, prefix, pattern, limit, cursor, values } = self;
        let after = cursor.as_deref().map(read_cursor).transpose()?;
        let mut query = RecordQuery { namespace, prefix, pattern, limit, after, values };
        query.check()?;
        Ok(query)
    }
}

/// Which records a page contains.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordQuery {
    pub namespace: String,
    /// The beginning of the keys.
    pub prefix: Option<String>,
    /// What the values contain, as [`crate::contains::contains`] defines it.
    pub pattern: Option<Payload>,
    pub limit: usize,
    /// The key after which the page begins.
    pub after: Option<String>,
    /// Whether the records contain their values.
    pub values: bool,
}

impl RecordQuery {
    /// All records of a namespace.
    pub fn new(namespace: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            prefix: None,
            pattern: None,
            limit: PAGE_ITEMS_DEFAULT,
            after: None,
            values: true,
        }
    }

    pub fn check(&mut self) -> Result<(), OpFailure> {
        self.namespace = check_name("namespace", &self.namespace)?;
        check_limit(self.limit)
    }

    /// Whether the values must be read.
    pub fn needs_values(&self) -> bool {
        self.values || self.pattern.is_some()
    }
}

/// One page of a list of records.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordPage {
    pub records: Vec<Record>,
    /// The key after which the next page begins.
    pub next: Option<String>,
}

/// A page under construction. The records are offered in the order of their keys, from the first key that is not
/// before the prefix.
pub struct RecordScan<'a> {
    query: &'a RecordQuery,
    now: Timestamp,
    scan: Scan<Record, String>,
    /// Counts the comparisons with the pattern. A page ends when they have used the fuel of a decision, because a reader of
    /// the database serves all workspaces.
    meter: Meter,
}

impl<'a> RecordScan<'a> {
    pub fn new(query: &'a RecordQuery, now: Timestamp) -> Self {
        Self { query, now, scan: Scan::new(query.limit), meter: Meter::new() }
    }

    /// Adds the next record. Returns false if no further record belongs to this page.
    pub fn offer(&mut self, mut record: Record) -> bool {
        if self.query.prefix.as_deref().is_some_and(|prefix| !record.key.starts_with(prefix)) {
            return false;
        }
        let is_wanted = record.is_live(self.now) && self.is_match(&record);
        // A value that is not read, or not shown, costs nothing.
        let read = if self.query.needs_values() { record.bytes } else { 0 };
        let shown = if self.query.values { record.bytes } else { 0 };
        let key = record.key.clone();
        if !self.query.values {
            record.value = None;
        }
        let is_added = self.scan.offer(key, read, is_wanted.then_some((record, shown)));
        if self.meter.is_spent() {
            self.scan.end();
        }
        is_added
    }

    fn is_match(&self, record: &Record) -> bool {
        let Some(pattern) = &self.query.pattern else { return true };
        self.meter.begin_part();
        record.value.as_ref().is_some_and(|value| contains_within(value.value(), pattern.value(), &self.meter))
    }

    pub fn finish(self) -> RecordPage {
        let (records, next) = self.scan.finish();
        RecordPage { records, next }
    }
}

fn default_limit() -> usize {
    PAGE_ITEMS_DEFAULT
}

fn default_values() -> bool {
    true
}
