//! The limits of records and links. Data beyond a limit fails with `VALIDATION_ERROR`.

/// Characters of a namespace, a key, a type, an id, a relation or an idempotency key.
pub const NAME_CHARS_MAX: usize = 256;
/// Bytes of a link's namespace, types, ids and relation together: they are one key of an index.
pub const LINK_BYTES_MAX: usize = 2_400;
/// Bytes of the key of an op, which is a key of an index.
pub const OP_KEY_BYTES_MAX: usize = 2_400;
/// Bytes of JSON in the attributes of a link.
pub const ATTRIBUTES_BYTES_MAX: usize = 64 * 1024;
/// Bytes of JSON of a number that can be incremented.
pub const INCREMENTED_BYTES_MAX: usize = 1024;
/// The longest time after which a record expires: a year.
pub const TTL_SECONDS_MAX: u64 = 31_536_000;
/// Checks and writes of one transaction.
pub const TRANSACT_PARTS_MAX: usize = 64;
/// Bytes of JSON in the checks and writes of one transaction.
pub const TRANSACT_BYTES_MAX: usize = 1024 * 1024;
/// Links that one op deletes.
pub const DELETED_LINKS_MAX: usize = 10_000;
/// Items of a page, unless the request names a number.
pub const PAGE_ITEMS_DEFAULT: usize = 100;
/// Items of a page.
pub const PAGE_ITEMS_MAX: usize = 200;
/// Bytes of values or attributes in a page. A larger value is a page of its own.
pub const PAGE_BYTES_MAX: usize = 512 * 1024;
/// Rows that are read for one page.
pub const SCANNED_ROWS_MAX: usize = 10_000;
/// Bytes of values that are read for one page.
pub const SCANNED_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The limits that a server sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLimits {
    /// Bytes of JSON in one value.
    pub value_bytes: usize,
}

impl RecordLimits {
    /// The range of `value_bytes`: a value, and a page with one value, fit into a payload.
    pub const VALUE_BYTES: std::ops::RangeInclusive<usize> = 1024..=768 * 1024;
}

impl Default for RecordLimits {
    fn default() -> Self {
        Self { value_bytes: 256 * 1024 }
    }
}
