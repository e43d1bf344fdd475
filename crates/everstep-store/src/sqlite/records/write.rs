//! Writes the difference that a batch has made.

use everstep_core::ids::WorkspaceId;
use everstep_core::records::{Link, NamespacePicture, Picture, Record};
use everstep_core::time::Timestamp;
use rusqlite::{CachedStatement, Connection, named_params};

use super::placement::Placement;
use crate::error::Result;
use crate::numbers;
use crate::records::{ChangeColumns, pack_value};
use crate::sqlite::queries::query;

type Id = [u8; 16];

pub(super) fn write(
    tx: &Connection,
    picture: &Picture,
    placement: &Placement,
    now: Timestamp,
    kept_until: Timestamp,
) -> Result<()> {
    let mut put = tx.prepare_cached(query!("records/apply/3_record_put"))?;
    let mut change = tx.prepare_cached(query!("records/apply/6_change"))?;
    for (workspace, name, namespace) in picture.namespaces() {
        if namespace.changes().is_empty() {
            continue;
        }
        write_counts(tx, workspace, name, namespace, now)?;
        let workspace = workspace.uuid().into_bytes();
        for (key, record) in namespace.changed_records() {
            match record {
                Some(record) => {
                    put_record(&mut put, &workspace, name, record)?;
                    placement.move_written(tx, record)?;
                }
                None => {
                    tx.prepare_cached(query!("records/apply/3_record_delete"))?
                        .execute(named_params! { ":workspace": workspace, ":namespace": name, ":key": key })?;
                }
            }
        }
        // A link that was created again under another id has the sides and the relation of the deleted one.
        for link in namespace.deleted_links() {
            tx.prepare_cached(query!("records/apply/4_link_delete"))?
                .execute(named_params! { ":workspace": workspace, ":id": link.id.0.into_bytes() })?;
        }
        for link in namespace.written_links() {
            put_link(tx, &workspace, name, link)?;
        }
        for columns in namespace.changes().iter().map(ChangeColumns::from_change) {
            add_change(&mut change, &workspace, name, &columns, kept_until)?;
        }
    }
    Ok(())
}

fn write_counts(
    tx: &Connection,
    workspace: WorkspaceId,
    name: &str,
    namespace: &NamespacePicture,
    now: Timestamp,
) -> Result<()> {
    let counts = namespace.counts();
    tx.prepare_cached(query!("records/apply/2_namespace"))?.execute(named_params! {
        ":workspace": workspace.uuid().into_bytes(),
        ":name": name,
        ":changes": numbers::checked_seq(counts.changes)?,
        ":keys": numbers::checked_seq(counts.keys)?,
        ":links": numbers::checked_seq(counts.links)?,
        ":bytes": numbers::checked_seq(counts.bytes)?,
        ":now": now.micros(),
    })?;
    Ok(())
}

fn put_record(statement: &mut CachedStatement<'_>, workspace: &Id, namespace: &str, record: &Record) -> Result<()> {
    let (codec, value) = pack_value(record.value.as_ref());
    statement.execute(named_params! {
        ":workspace": workspace,
        ":namespace": namespace,
        ":key": record.key,
        ":id": record.id.0.into_bytes(),
        ":revision": numbers::checked_seq(record.revision)?,
        ":change": numbers::checked_seq(record.change)?,
        ":bytes": numbers::clamp_limit(record.bytes),
        ":value_type": record.value_type.as_str(),
        ":expires_at": record.expires_at.map(Timestamp::micros),
        ":created_at": record.created_at.micros(),
        ":updated_at": record.updated_at.micros(),
        ":run": record.run.map(|run| run.uuid().into_bytes()),
        ":step": record.step.as_ref().map(everstep_core::ids::StepKey::as_str),
        ":codec": codec.number(),
        ":value": value,
    })?;
    Ok(())
}

fn put_link(tx: &Connection, workspace: &Id, namespace: &str, link: &Link) -> Result<()> {
    tx.prepare_cached(query!("records/apply/5_link_put"))?.execute(named_params! {
        ":workspace": workspace,
        ":id": link.id.0.into_bytes(),
        ":namespace": namespace,
        ":left_type": link.key.from.kind,
        ":left_id": link.key.from.id,
        ":right_type": link.key.to.kind,
        ":right_id": link.key.to.id,
        ":relation": link.key.relation,
        ":change": numbers::checked_seq(link.change)?,
        ":created_at": link.created_at.micros(),
        ":updated_at": link.updated_at.micros(),
        ":run": link.run.map(|run| run.uuid().into_bytes()),
        ":step": link.step.as_ref().map(everstep_core::ids::StepKey::as_str),
        ":attributes": link.attributes.as_ref().map_or("{}", |attributes| attributes.json()).as_bytes(),
    })?;
    Ok(())
}

fn add_change(
    statement: &mut CachedStatement<'_>,
    workspace: &Id,
    namespace: &str,
    columns: &ChangeColumns<'_>,
    kept_until: Timestamp,
) -> Result<()> {
    let author = columns.author;
    statement.execute(named_params! {
        ":workspace": workspace,
        ":namespace": namespace,
        ":change": numbers::checked_seq(columns.number)?,
        ":at": columns.at.micros(),
        ":expires_at": kept_until.micros(),
        ":action": columns.action,
        ":subject": columns.subject,
        ":actor": author.actor,
        ":run": author.run.map(|run| run.uuid().into_bytes()),
        ":step": author.step.as_ref().map(everstep_core::ids::StepKey::as_str),
        ":op_key": columns.op.map(|op| op.key.as_str()),
        ":digest": columns.op.and_then(|op| op.digest),
        ":revision": columns.revision.map(numbers::checked_seq).transpose()?,
        ":value_type": columns.value_type,
        ":value_expires_at": columns.value_expires_at.map(Timestamp::micros),
        ":output": columns.op.map(|op| op.output.json().as_bytes()),
        ":codec": columns.codec,
        ":value": columns.value,
    })?;
    Ok(())
}
