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
        let after = texts::page_start(query.after.as_deref());
        let mut statement = self.connection.prepare_cached(query!("records/list"))?;
        let mut found = statement.query(named_params! {
            ":workspace": workspace.uuid().into_bytes(),
            ":namespace": query.namespace,
            ":from": query.prefix.as_deref().unwrap_or_default().max(after),
            ":after": after,
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

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;

    /// The steps of SQLite's virtual machine for the first records of a list.
    fn steps(database: &Database, from: &str, after: &str) -> i32 {
        let mut statement = database.connection.prepare(query!("records/list")).unwrap();
        let params = named_params! {
            ":workspace": WorkspaceId::DEFAULT.uuid().into_bytes(),
            ":namespace": "n",
            ":from": from,
            ":after": after,
            ":values": true,
        };
        let found = statement.query_map(params, |row| row.get::<_, String>(0)).unwrap();
        let keys: Vec<_> = found.take(5).map(Result::unwrap).collect();
        assert_eq!(keys.len(), 5);
        assert!(keys.iter().all(|key| key.as_str() >= from && key != after), "{keys:?}");
        statement.get_status(StatementStatus::VmStep)
    }

    #[test]
    fn a_list_examines_no_record_before_its_page() {
        let database = Database::in_memory().unwrap();
        let insert = "
            with recursive numbers (n) as (select 0 union all select n + 1 from numbers where n < 19999)
            insert into records (
                workspace, namespace, key, id, revision, change, bytes, value_type, created_at, updated_at, codec, value
            )
            select :workspace, 'n', printf('k%05d', n), randomblob(16), 1, n + 1, 1, 'number', 0, 0, 0, x'31'
            from numbers";
        let workspace = WorkspaceId::DEFAULT.uuid().into_bytes();
        database.connection.execute(insert, named_params! { ":workspace": workspace }).unwrap();
        // The plan of a statement that examines all earlier keys is the same: its work is counted.
        let first = steps(&database, "", "");
        for (from, after) in [("k15", ""), ("k15000", "k15000"), ("k19990", "k1")] {
            let later = steps(&database, from, after);
            assert!(later < first + 50, "{later} steps from {from}, {first} from the first record on");
        }
    }
}
