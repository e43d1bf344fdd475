//! Rows of records, links, namespaces and changes.

use everstep_core::ids::{RunId, StepKey};
use everstep_core::records::{Identifier, Link, LinkId, LinkKey, NamespaceCounts, Record, RecordId};
use rusqlite::Row;
use rusqlite::types::ValueRef;

use crate::error::Result;
use crate::records::{ChangeRow, NamespaceRow, StoredChange, payload, value_type};
use crate::sqlite::columns;
use crate::{numbers, pack};

/// In the order of `records/get.sql`. The value may be null.
pub(super) fn record_from_row(row: &Row<'_>) -> Result<Record> {
    let value = match row.get_ref(12)? {
        ValueRef::Null => None,
        value => {
            let bytes = value.as_blob().map_err(rusqlite::Error::from)?;
            Some(payload(pack::unpack(row.get(11)?, bytes)?)?)
        }
    };
    Ok(Record {
        key: row.get(0)?,
        id: RecordId(columns::uuid(row, 1)?),
        revision: columns::seq(row, 2)?,
        change: columns::seq(row, 3)?,
        bytes: numbers::size(row.get(4)?),
        value_type: value_type(columns::text(row, 5)?)?,
        expires_at: columns::optional_time(row, 6)?,
        created_at: columns::time(row, 7)?,
        updated_at: columns::time(row, 8)?,
        run: columns::optional_uuid(row, 9)?.map(RunId::from_uuid),
        step: row.get::<_, Option<String>>(10)?.map(StepKey::from),
        value,
    })
}

/// In the order of `records/links/1_forward.sql`. The attributes may be null.
pub(super) fn link_from_row(row: &Row<'_>) -> rusqlite::Result<Link> {
    let attributes: Option<Vec<u8>> = row.get(12)?;
    Ok(Link {
        id: LinkId(columns::uuid(row, 0)?),
        key: LinkKey {
            from: Identifier { kind: row.get(1)?, id: row.get(2)? },
            to: Identifier { kind: row.get(3)?, id: row.get(4)? },
            relation: row.get(5)?,
        },
        change: columns::seq(row, 6)?,
        created_at: columns::time(row, 7)?,
        updated_at: columns::time(row, 8)?,
        run: columns::optional_uuid(row, 9)?.map(RunId::from_uuid),
        step: row.get::<_, Option<String>>(10)?.map(StepKey::from),
        bytes: numbers::size(row.get(11)?),
        attributes: attributes.map(|bytes| columns::payload(12, bytes)).transpose()?,
    })
}

/// In the order of `records/namespaces/1_list.sql`.
pub(super) fn namespace_from_row(row: &Row<'_>) -> rusqlite::Result<NamespaceRow> {
    Ok(NamespaceRow {
        name: row.get(0)?,
        counts: NamespaceCounts {
            changes: columns::seq(row, 1)?,
            keys: columns::seq(row, 2)?,
            links: columns::seq(row, 3)?,
            bytes: columns::seq(row, 4)?,
        },
        updated_at: columns::time(row, 5)?,
    })
}

/// In the order of `records/changes.sql`.
pub(super) fn change_from_row(row: &Row<'_>) -> Result<ChangeRow> {
    let text = |column: usize| row.get_ref(column)?.as_str_or_null().map_err(rusqlite::Error::from);
    let blob = |column: usize| row.get_ref(column)?.as_blob_or_null().map_err(rusqlite::Error::from);
    let revision: Option<i64> = row.get(9)?;
    StoredChange {
        number: columns::seq(row, 0)?,
        at: columns::time(row, 1)?,
        action: row.get(2)?,
        subject: row.get(3)?,
        actor: row.get(4)?,
        run: columns::optional_uuid(row, 5)?,
        step: row.get(6)?,
        op_key: text(7)?,
        digest: blob(8)?,
        revision: revision.and_then(|revision| u64::try_from(revision).ok()),
        value_type: text(10)?,
        value_expires_at: columns::optional_time(row, 11)?,
        output: blob(12)?,
        codec: row.get(13)?,
        value: blob(14)?,
    }
    .into_row()
}
