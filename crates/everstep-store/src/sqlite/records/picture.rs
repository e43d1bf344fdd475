//! Reads what a batch of ops touches.

use everstep_core::ids::WorkspaceId;
use everstep_core::records::{
    DELETED_LINKS_MAX, KnownOp, Link, NamespaceCounts, NamespacePicture, Picture, PictureRequest, UnlinkRequest,
};
use rusqlite::{Connection, OptionalExtension, named_params};

use super::placement::Placement;
use super::rows;
use crate::error::Result;
use crate::numbers;
use crate::records::{digest, payload};
use crate::sqlite::columns;
use crate::sqlite::queries::query;

/// Returns the places of records as well, for the write.
pub(super) fn read(tx: &Connection, request: &PictureRequest<'_>) -> Result<(Picture, Placement)> {
    let mut picture = Picture::default();
    for (workspace, name) in &request.namespaces {
        let params = named_params! { ":workspace": workspace.uuid().into_bytes(), ":name": name };
        let mut statement = tx.prepare_cached(query!("records/apply/1_namespace"))?;
        let counts = statement.query_row(params, |row| {
            Ok(NamespaceCounts {
                changes: columns::seq(row, 0)?,
                keys: columns::seq(row, 1)?,
                links: columns::seq(row, 2)?,
                bytes: columns::seq(row, 3)?,
            })
        });
        if let Some(counts) = counts.optional()? {
            picture.add_namespace(*workspace, name, counts);
        }
    }
    read_known(tx, request, &mut picture)?;
    let mut placement = Placement::read(tx)?;
    let mut statement = tx.prepare_cached(query!("records/apply/1_record"))?;
    for ((workspace, namespace, key), value_bytes) in &request.records {
        let mut rows = statement.query(named_params! {
            ":workspace": workspace.uuid().into_bytes(),
            ":namespace": namespace,
            ":key": key,
            ":value_bytes": numbers::clamp_limit(*value_bytes),
        })?;
        if let Some(row) = rows.next()? {
            let record = rows::record_from_row(row)?;
            let changes = picture.namespace(*workspace, namespace).map_or(0, NamespacePicture::changes_before);
            placement.note(row.get(13)?, &record, changes);
            picture.add_record(*workspace, namespace, record);
        }
    }
    drop(statement);
    read_links(tx, request, &mut picture)?;
    Ok((picture, placement))
}

fn read_known(tx: &Connection, request: &PictureRequest<'_>, picture: &mut Picture) -> Result<()> {
    let mut known = tx.prepare_cached(query!("records/apply/1_known"))?;
    for (workspace, key) in &request.ops {
        let params = named_params! { ":workspace": workspace.uuid().into_bytes(), ":op_key": key.as_str() };
        let mut rows = known.query(params)?;
        if let Some(row) = rows.next()? {
            let stored = row.get_ref(0)?.as_blob_or_null().map_err(rusqlite::Error::from)?;
            let op =
                KnownOp { digest: stored.map(digest).transpose()?, output: payload(row.get(1)?)?, pending_in: None };
            picture.add_known(*workspace, (*key).clone(), op);
        }
    }
    Ok(())
}

fn read_links(tx: &Connection, request: &PictureRequest<'_>, picture: &mut Picture) -> Result<()> {
    for (workspace, namespace, key) in &request.links {
        let mut statement = tx.prepare_cached(query!("records/apply/1_link"))?;
        let params = named_params! {
            ":workspace": workspace.uuid().into_bytes(),
            ":namespace": namespace,
            ":left_type": key.from.kind,
            ":left_id": key.from.id,
            ":right_type": key.to.kind,
            ":right_id": key.to.id,
            ":relation": key.relation,
        };
        if let Some(link) = statement.query_row(params, rows::link_from_row).optional()? {
            picture.add_link(*workspace, namespace, link);
        }
    }
    for (workspace, namespace, unlink) in &request.deleted_links {
        let links = select(tx, *workspace, namespace, unlink)?;
        if links.len() > DELETED_LINKS_MAX {
            picture.set_crowded(*workspace, namespace);
        }
        for link in links {
            picture.add_link(*workspace, namespace, link);
        }
    }
    Ok(())
}

/// The links that a request selects, up to one more than an op may delete.
fn select(tx: &Connection, workspace: WorkspaceId, namespace: &str, unlink: &UnlinkRequest) -> Result<Vec<Link>> {
    let workspace = workspace.uuid().into_bytes();
    let limit = numbers::clamp_limit(DELETED_LINKS_MAX + 1);
    let relation = unlink.relation.as_deref();
    let mut statement;
    let rows = match (unlink.id, &unlink.from, &unlink.to) {
        (Some(id), ..) => {
            statement = tx.prepare_cached(query!("records/apply/1_link_by_id"))?;
            statement.query(named_params! {
                ":workspace": workspace, ":id": id.0.into_bytes(), ":namespace": namespace,
            })?
        }
        (None, Some(from), Some(to)) => {
            statement = tx.prepare_cached(query!("records/apply/1_links_between"))?;
            statement.query(named_params! {
                ":workspace": workspace, ":namespace": namespace, ":left_type": from.kind, ":left_id": from.id,
                ":right_type": to.kind, ":right_id": to.id, ":relation": relation, ":limit": limit,
            })?
        }
        (None, Some(from), None) => {
            statement = tx.prepare_cached(query!("records/apply/1_links_from"))?;
            statement.query(named_params! {
                ":workspace": workspace, ":namespace": namespace, ":left_type": from.kind, ":left_id": from.id,
                ":relation": relation, ":limit": limit,
            })?
        }
        (None, None, Some(to)) => {
            statement = tx.prepare_cached(query!("records/apply/1_links_to"))?;
            statement.query(named_params! {
                ":workspace": workspace, ":namespace": namespace, ":right_type": to.kind, ":right_id": to.id,
                ":relation": relation, ":limit": limit,
            })?
        }
        // The check of the input refuses it.
        (None, None, None) => return Ok(vec![]),
    };
    Ok(rows.mapped(rows::link_from_row).collect::<rusqlite::Result<_>>()?)
}
