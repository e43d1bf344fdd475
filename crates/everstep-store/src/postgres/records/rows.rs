//! Rows of records, links, namespaces and changes.

use everstep_core::ids::{RunId, StepKey};
use everstep_core::records::{Identifier, Link, LinkId, LinkKey, NamespaceCounts, Record, RecordId};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::error::Result;
use crate::postgres::columns::{self, get};
use crate::records::{ChangeRow, NamespaceRow, StoredChange, payload, value_type};
use crate::{numbers, pack};

/// In the order of `records/get.sql`. The value may be null.
pub(super) fn record_from_row(row: &Row) -> Result<Record> {
    let codec = u8::try_from(get::<i16>(row, 11)?).map_err(columns::unreadable)?;
    let value = get::<Option<&[u8]>>(row, 12)?.map(|value| pack::unpack(codec, value)).transpose()?;
    Ok(Record {
        key: get(row, 0)?,
        id: RecordId(get(row, 1)?),
        revision: columns::seq(row, 2)?,
        change: columns::seq(row, 3)?,
        bytes: numbers::size(get(row, 4)?),
        value_type: value_type(get(row, 5)?)?,
        expires_at: columns::optional_time(row, 6)?,
        created_at: columns::time(row, 7)?,
        updated_at: columns::time(row, 8)?,
        run: get::<Option<Uuid>>(row, 9)?.map(RunId::from_uuid),
        step: get::<Option<String>>(row, 10)?.map(StepKey::from),
        value: value.map(payload).transpose()?,
    })
}

/// In the order of `records/links/1_forward.sql`.
pub(super) fn link_from_row(row: &Row) -> Result<Link> {
    Ok(Link {
        id: LinkId(get(row, 0)?),
        key: LinkKey {
            from: Identifier { kind: get(row, 1)?, id: get(row, 2)? },
            to: Identifier { kind: get(row, 3)?, id: get(row, 4)? },
            relation: get(row, 5)?,
        },
        change: columns::seq(row, 6)?,
        created_at: columns::time(row, 7)?,
        updated_at: columns::time(row, 8)?,
        run: get::<Option<Uuid>>(row, 9)?.map(RunId::from_uuid),
        step: get::<Option<String>>(row, 10)?.map(StepKey::from),
        bytes: numbers::size(get(row, 11)?),
        attributes: Some(columns::bytes_payload(get(row, 12)?)?),
    })
}

/// In the order of `records/namespaces/1_list.sql`.
pub(super) fn namespace_from_row(row: &Row) -> Result<NamespaceRow> {
    Ok(NamespaceRow {
        name: get(row, 0)?,
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
pub(super) fn change_from_row(row: &Row) -> Result<ChangeRow> {
    StoredChange {
        number: columns::seq(row, 0)?,
        at: columns::time(row, 1)?,
        action: get(row, 2)?,
        subject: get(row, 3)?,
        actor: get(row, 4)?,
        run: get(row, 5)?,
        step: get(row, 6)?,
        op_key: get(row, 7)?,
        digest: get(row, 8)?,
        revision: get::<Option<i64>>(row, 9)?.map(u64::try_from).transpose().map_err(columns::unreadable)?,
        value_type: get(row, 10)?,
        value_expires_at: columns::optional_time(row, 11)?,
        output: get(row, 12)?,
        codec: get::<Option<i16>>(row, 13)?.map(u8::try_from).transpose().map_err(columns::unreadable)?,
        value: get(row, 14)?,
    }
    .into_row()
}
