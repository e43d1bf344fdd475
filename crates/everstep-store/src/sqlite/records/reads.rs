//! Reads records, links, namespaces and changes. A page is read row by row until it is full.

use everstep_core::ids::WorkspaceId;
use everstep_core::records::{
    Direction, LinkMatch, LinkPage, LinkQuery, LinkRange, LinkScan, Record, RecordPage, RecordQuery, RecordScan,
};
use everstep_core::time::Timestamp;
use rusqlite::{OptionalExtension, named_params};

use super::rows;
use crate::error::Result;
use crate::records::{ChangePage, ChangeQuery, ChangeScan, NamespacePage, NamespaceQuery, NamespaceScan, RecordKey};
use crate::sqlite::database::Database;
use crate::sqlite::queries::query;
use crate::{numbers, texts};

impl Database {
    pub fn get_records(&self, keys: &[RecordKey]) -> Result<Vec<Option<Record>>> {
        let tx = self.begin_read()?;
        let mut statement = tx.prepare_cached(query!("records/get"))?;
        let mut records = Vec::with_capacity(keys.len());
        for key in keys {
            let mut found = statement.query(named_params! {
                ":workspace": key.workspace.uuid().into_bytes(),
                ":namespace": key.namespace,
                ":key": key.key,
            })?;
            records.push(found.next()?.map(rows::record_from_row).transpose()?);
        }
        Ok(records)
    }

    pub fn list_records(&self, workspace: WorkspaceId, query: &RecordQuery, now: Timestamp) -> Result<RecordPage> {
        let mut scan = RecordScan::new(query, now);
        let mut statement = self.connection.prepare_cached(query!("records/list"))?;
        let mut found = statement.query(named_params! {
            ":workspace": workspace.uuid().into_bytes(),
            ":namespace": query.namespace,
            ":after": texts::page_start(query.cursor.as_deref()),
            ":prefix": query.prefix.as_deref().unwrap_or_default(),
            ":values": query.needs_values(),
        })?;
        while let Some(row) = found.next()? {
            if !scan.offer(rows::record_from_row(row)?) {
                break;
            }
        }
        Ok(scan.finish())
    }

    pub fn list_links(&self, workspace: WorkspaceId, query: &LinkQuery) -> Result<LinkPage> {
        let workspace = workspace.uuid().into_bytes();
        if let Some(id) = query.id {
            let mut statement = self.connection.prepare_cached(query!("records/links/4_by_id"))?;
            let params = named_params! {
                ":workspace": workspace, ":id": id.0.into_bytes(), ":namespace": query.namespace,
            };
            let link = statement.query_row(params, rows::link_from_row).optional()?;
            let found = |link| LinkMatch { link, direction: Direction::Forward };
            return Ok(LinkPage { matches: link.map(found).into_iter().collect(), next: None });
        }
        // The ranges of a page are read in one snapshot.
        let tx = self.begin_read()?;
        let mut scan = LinkScan::new(query);
        for range in query.ranges() {
            let mut statement;
            let mut found = match &range {
                LinkRange::Forward { from: near, after } | LinkRange::Reverse { to: near, after } => {
                    statement = match &range {
                        LinkRange::Reverse { .. } => tx.prepare_cached(query!("records/links/2_reverse"))?,
                        _ => tx.prepare_cached(query!("records/links/1_forward"))?,
                    };
                    statement.query(named_params! {
                        ":workspace": workspace, ":namespace": query.namespace, ":near_type": near.kind,
                        ":near_id": near.id, ":first": after.0, ":second": after.1, ":third": after.2,
                    })?
                }
                LinkRange::All { after } => {
                    statement = tx.prepare_cached(query!("records/links/3_all"))?;
                    statement.query(named_params! {
                        ":workspace": workspace, ":namespace": query.namespace, ":left_type": after.from.kind,
                        ":left_id": after.from.id, ":right_type": after.to.kind, ":right_id": after.to.id,
                        ":relation": after.relation,
                    })?
                }
            };
            while let Some(row) = found.next()? {
                if !scan.offer(&range, rows::link_from_row(row)?) {
                    break;
                }
            }
            if scan.is_full() {
                break;
            }
        }
        Ok(scan.finish())
    }

    pub fn list_namespaces(&self, workspace: WorkspaceId, query: &NamespaceQuery) -> Result<NamespacePage> {
        let workspace = workspace.uuid().into_bytes();
        let mut scan = NamespaceScan::new(query);
        let mut statement;
        let mut found = match &query.name {
            Some(name) => {
                statement = self.connection.prepare_cached(query!("records/namespaces/2_one"))?;
                statement.query(named_params! { ":workspace": workspace, ":name": name })?
            }
            None => {
                statement = self.connection.prepare_cached(query!("records/namespaces/1_list"))?;
                let after = texts::page_start(query.after.as_deref());
                statement.query(named_params! { ":workspace": workspace, ":after": after })?
            }
        };
        while let Some(row) = found.next()? {
            if !scan.offer(rows::namespace_from_row(row)?) {
                break;
            }
        }
        Ok(scan.finish())
    }

    pub fn list_changes(&self, workspace: WorkspaceId, query: &ChangeQuery) -> Result<ChangePage> {
        let mut scan = ChangeScan::new(query);
        let mut statement = self.connection.prepare_cached(query!("records/changes"))?;
        let mut found = statement.query(named_params! {
            ":workspace": workspace.uuid().into_bytes(),
            ":namespace": query.namespace,
            ":after": numbers::clamp_seq(query.after),
        })?;
        while let Some(row) = found.next()? {
            if !scan.offer(rows::change_from_row(row)?) {
                break;
            }
        }
        Ok(scan.finish())
    }
}
