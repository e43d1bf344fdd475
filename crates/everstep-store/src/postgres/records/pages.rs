//! Reads pages of records, links, namespaces and changes, in chunks: a page may need many rows, and a chunk is held in
//! memory.

use everstep_core::ids::WorkspaceId;
use everstep_core::records::{
    Direction, LinkKey, LinkMatch, LinkPage, LinkQuery, LinkRange, LinkScan, RecordPage, RecordQuery, RecordScan,
};
use everstep_core::time::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::rows;
use crate::error::Result;
use crate::postgres::columns;
use crate::postgres::queries::{params, query};
use crate::postgres::store::PostgresStore;
use crate::records::{ChangePage, ChangeQuery, ChangeScan, NamespacePage, NamespaceQuery, NamespaceScan};
use crate::{numbers, texts};

/// Rows of one chunk.
const CHUNK_ROWS: usize = 256;
/// Rows of one chunk of links or changes, whose attributes and values are limited one by one.
const SMALL_CHUNK_ROWS: usize = 100;
/// Bytes of values in one chunk of records.
const CHUNK_BYTES: i64 = 1024 * 1024;

impl PostgresStore {
    pub(super) async fn list_records(
        &self,
        workspace: WorkspaceId,
        query: &RecordQuery,
        now: Timestamp,
    ) -> Result<RecordPage> {
        let mut scan = RecordScan::new(query, now);
        let prefix = query.prefix.as_deref().unwrap_or_default();
        if texts::has_nul(&query.namespace) || texts::has_nul(prefix) {
            return Ok(scan.finish());
        }
        let has_values = query.needs_values();
        // Without a pattern nearly every record is shown; one more shows whether there is another page.
        let limit = if query.pattern.is_none() { (query.limit + 1).min(CHUNK_ROWS) } else { CHUNK_ROWS };
        let mut after = texts::page_start(query.after.as_deref()).to_owned();
        loop {
            let found = self
                .connections
                .query(
                    query!("records/list"),
                    params! {
                        "values": has_values,
                        "workspace": workspace.uuid(),
                        "namespace": query.namespace,
                        "after": after,
                        "prefix": prefix,
                        "limit": numbers::clamp_limit(limit),
                        "bytes": if has_values { CHUNK_BYTES } else { i64::MAX },
                    },
                )
                .await?;
            let Some(last) = found.last() else { return Ok(scan.finish()) };
            after = columns::get(last, 0)?;
            let is_end = found.len() < limit && numbers::size(columns::get(last, 13)?) == found.len();
            for row in &found {
                if !scan.offer(rows::record_from_row(row)?) {
                    return Ok(scan.finish());
                }
            }
            if is_end {
                return Ok(scan.finish());
            }
        }
    }

    pub(super) async fn list_links(&self, workspace: WorkspaceId, query: &LinkQuery) -> Result<LinkPage> {
        let workspace = workspace.uuid();
        let mut scan = LinkScan::new(query);
        if texts::has_nul(&query.namespace) {
            return Ok(scan.finish());
        }
        if let Some(id) = query.id {
            let params = params! { "workspace": workspace, "id": id.0, "namespace": query.namespace };
            let link = self.connections.query_opt(query!("records/links/4_by_id"), params).await?;
            let link = link.as_ref().map(rows::link_from_row).transpose()?;
            let found = |link| LinkMatch { link, direction: Direction::Forward };
            return Ok(LinkPage { matches: link.map(found).into_iter().collect(), next: None });
        }
        for mut range in query.ranges() {
            loop {
                let found = self.read_range(workspace, &query.namespace, &range).await?;
                let mut last: Option<LinkKey> = None;
                let mut is_past = false;
                for row in &found {
                    let link = rows::link_from_row(row)?;
                    last = Some(link.key.clone());
                    is_past = !scan.offer(&range, link);
                    if is_past {
                        break;
                    }
                }
                match last {
                    Some(key) if !is_past && found.len() == SMALL_CHUNK_ROWS => range = range.after(&key),
                    _ => break,
                }
            }
            if scan.is_full() {
                break;
            }
        }
        Ok(scan.finish())
    }

    /// The next links of a range.
    async fn read_range(&self, workspace: Uuid, namespace: &str, range: &LinkRange) -> Result<Vec<Row>> {
        let limit = numbers::clamp_limit(SMALL_CHUNK_ROWS);
        let (statement, near, after) = match range {
            LinkRange::Forward { from, after } => (query!("records/links/1_forward"), from, after),
            LinkRange::Reverse { to, after } => (query!("records/links/2_reverse"), to, after),
            LinkRange::All { after } => {
                let params = params! {
                    "workspace": workspace, "namespace": namespace, "left_type": after.from.kind,
                    "left_id": after.from.id, "right_type": after.to.kind, "right_id": after.to.id,
                    "relation": after.relation, "limit": limit,
                };
                return self.connections.query(query!("records/links/3_all"), params).await;
            }
        };
        let params = params! {
            "workspace": workspace, "namespace": namespace, "near_type": near.kind, "near_id": near.id,
            "first": after.0, "second": after.1, "third": after.2, "limit": limit,
        };
        self.connections.query(statement, params).await
    }

    pub(super) async fn list_namespaces(
        &self,
        workspace: WorkspaceId,
        query: &NamespaceQuery,
    ) -> Result<NamespacePage> {
        let workspace = workspace.uuid();
        let mut scan = NamespaceScan::new(query);
        if let Some(name) = &query.name {
            let name = name.as_str();
            if texts::has_nul(name) {
                return Ok(scan.finish());
            }
            let params = params! { "workspace": workspace, "name": name };
            if let Some(row) = self.connections.query_opt(query!("records/namespaces/2_one"), params).await? {
                scan.offer(rows::namespace_from_row(&row)?);
            }
            return Ok(scan.finish());
        }
        let limit = (query.limit + 1).min(CHUNK_ROWS);
        let rows_max = numbers::clamp_limit(limit);
        let mut after = texts::page_start(query.after.as_deref()).to_owned();
        loop {
            let params = params! { "workspace": workspace, "after": after, "limit": rows_max };
            let found = self.connections.query(query!("records/namespaces/1_list"), params).await?;
            for row in &found {
                let row = rows::namespace_from_row(row)?;
                after.clone_from(&row.name);
                if !scan.offer(row) {
                    return Ok(scan.finish());
                }
            }
            if found.len() < limit {
                return Ok(scan.finish());
            }
        }
    }

    pub(super) async fn list_changes(&self, workspace: WorkspaceId, query: &ChangeQuery) -> Result<ChangePage> {
        let mut scan = ChangeScan::new(query);
        if texts::has_nul(&query.namespace) {
            return Ok(scan.finish());
        }
        let is_filtered = query.actor.is_some() || query.action.is_some() || query.run.is_some();
        // Without a filter every change is shown; one more shows whether there is another page.
        let limit = if is_filtered { SMALL_CHUNK_ROWS } else { (query.limit + 1).min(SMALL_CHUNK_ROWS) };
        let mut after = numbers::clamp_seq(query.after);
        loop {
            let found = self
                .connections
                .query(
                    query!("records/changes"),
                    params! {
                        "workspace": workspace.uuid(),
                        "namespace": query.namespace,
                        "after": after,
                        "limit": numbers::clamp_limit(limit),
                    },
                )
                .await?;
            for row in &found {
                after = columns::get(row, 0)?;
                if !scan.offer(rows::change_from_row(row)?) {
                    return Ok(scan.finish());
                }
            }
            if found.len() < limit {
                return Ok(scan.finish());
            }
        }
    }
}
