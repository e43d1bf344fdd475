//! Fills a namespace by statements of the database. Ten million records are too many for ops.
//!
//! The rows are those that one `store.set` per record leaves, each of a run of its own.

use anyhow::Context;
use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;
use everstep_testkit::contract::fixtures::Tables;

use super::ops::{CHANGES_KEPT_FOR, NAMESPACE};
use crate::bench::args::Site;
use crate::bench::ground;

/// Records of one transaction.
const CHUNK_RECORDS: usize = 200_000;

/// Creates records in a database without any. Each is a counter with the value 0.
pub(super) async fn fill(site: &Site, records: usize, now: Timestamp) -> anyhow::Result<()> {
    // Opening it creates the tables.
    ground::visit(site, |_| async { Ok(()) }).await?;
    let (tables, dialect) = match site {
        Site::Sqlite(folder) => (Tables::in_folder(folder), Dialect::sqlite()),
        Site::Postgres(url) => (Tables::Postgres(url.clone()), Dialect::postgres()),
    };
    let execute = async |statements: String| {
        let done = tables.execute(&statements).await;
        done.map_err(|error| anyhow::anyhow!(error)).context("creating records")
    };
    for first in (0..records).step_by(CHUNK_RECORDS) {
        execute(dialect.chunk(first, records.min(first + CHUNK_RECORDS), now)).await?;
    }
    execute(dialect.namespace(records, now)).await?;
    // Otherwise the database would do this work during the first samples.
    for statement in dialect.settle {
        execute((*statement).to_owned()).await?;
    }
    Ok(())
}

/// How a database writes what both have in common.
struct Dialect {
    /// The id of the workspace.
    workspace: String,
    /// The key of the record with the number `n`.
    key: &'static str,
    /// The id of its run, as text and as an id.
    run_text: &'static str,
    run: &'static str,
    /// A random id.
    new_id: &'static str,
    /// The output of its op, as bytes.
    output: &'static str,
    /// The value 0, as bytes.
    zero: &'static str,
    /// A table of numbers, from `{first}` to before `{end}`.
    numbers: &'static str,
    /// What the database does later by itself.
    settle: &'static [&'static str],
}

impl Dialect {
    fn sqlite() -> Self {
        Self {
            workspace: format!("x'{}'", WorkspaceId::DEFAULT.uuid().simple()),
            key: "printf('record-%08d', n)",
            run_text: "printf('01990000-0000-7000-8000-%012x', n)",
            run: "unhex(printf('01990000000070008000%012x', n))",
            new_id: "randomblob(16)",
            output: r#"cast(printf('{"revision":1,"change":%d,"created":true}', n + 1) as blob)"#,
            zero: "cast('0' as blob)",
            numbers: "(with recursive number (n) as (
                    select {first} union all select n + 1 from number where n + 1 < {end}
                ) select n from number)",
            settle: &["pragma wal_checkpoint(truncate)"],
        }
    }

    fn postgres() -> Self {
        Self {
            workspace: format!("'{}'::uuid", WorkspaceId::DEFAULT.uuid()),
            key: "'record-' || lpad(n::text, 8, '0')",
            run_text: "'01990000-0000-7000-8000-' || lpad(to_hex(n), 12, '0')",
            run: "('01990000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid",
            new_id: "gen_random_uuid()",
            output: r#"convert_to(format('{"revision":1,"change":%s,"created":true}', n + 1), 'UTF8')"#,
            zero: "'0'::bytea",
            numbers: "generate_series({first}, {end} - 1) as number (n)",
            settle: &["vacuum analyze records", "vacuum analyze store_changes", "vacuum analyze store_namespaces"],
        }
    }

    /// Some records, with their changes.
    fn chunk(&self, first: usize, end: usize, now: Timestamp) -> String {
        let Self { workspace, key, run_text, run, new_id, output, zero, .. } = self;
        let numbers = self.numbers.replace("{first}", &first.to_string()).replace("{end}", &end.to_string());
        let (at, kept_until) = (now.micros(), now.plus(CHANGES_KEPT_FOR).micros());
        format!(
            "begin;
            insert into records (
                workspace, namespace, key, id, revision, change, bytes, value_type, created_at, updated_at, run_id, step,
                codec, value
            )
            select {workspace}, '{NAMESPACE}', {key}, {new_id}, 1, n + 1, 1, 'number', {at}, {at}, {run}, 'step', 0, {zero}
            from {numbers};
            insert into store_changes (
                workspace, namespace, change, at, expires_at, action, subject, actor, run_id, step, op_key, revision,
                value_type, output, codec, value
            )
            select {workspace}, '{NAMESPACE}', n + 1, {at}, {kept_until}, 'store.set', {key}, 'key:bench', {run}, 'step',
                'r:' || {run_text} || ':step', 1, 'number', {output}, 0, {zero}
            from {numbers};
            commit;"
        )
    }

    /// The row of the namespace, after all records.
    fn namespace(&self, records: usize, now: Timestamp) -> String {
        let (workspace, at) = (&self.workspace, now.micros());
        format!(
            "insert into store_namespaces (workspace, name, changes, keys, links, bytes, updated_at)
            values ({workspace}, '{NAMESPACE}', {records}, {records}, 0, {records}, {at})"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use everstep_core::ids::RunId;
    use everstep_core::records::{OpAction, OpKey, SetRequest};
    use everstep_store::{ChangeQuery, ChangeRow, NamespaceQuery, RecordKey, RecordStore};
    use everstep_testkit::postgres::Cluster;
    use serde_json::json;

    use super::*;
    use crate::bench::cases::store::ops::{Ops, increment, record_key};

    const RECORDS: usize = 300;

    fn at() -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000)
    }

    /// The same records by ops.
    async fn write(store: &dyn RecordStore) {
        let ops = Ops::new(Vec::new());
        let set = |number: usize| {
            let run: RunId = format!("01990000-0000-7000-8000-{number:012x}").parse().unwrap();
            let mut op = ops.op(OpAction::Set(SetRequest::new(record_key(number), json!(0))));
            op.key = OpKey::of_step(run, op.author.step.as_ref().unwrap());
            op.author.run = Some(run);
            op
        };
        let batch: Vec<_> = (0..RECORDS).map(set).collect();
        let applied = store.apply(&batch, at(), at().plus(CHANGES_KEPT_FOR)).await.unwrap();
        assert!(applied.outcomes.iter().all(Result::is_ok));
    }

    /// All that the port shows, without random ids.
    async fn contents(store: Arc<dyn RecordStore>) -> (String, Vec<ChangeRow>) {
        let key = |number| RecordKey {
            workspace: WorkspaceId::DEFAULT,
            namespace: NAMESPACE.to_owned(),
            key: record_key(number),
        };
        let keys: Vec<_> = (0..RECORDS).map(key).collect();
        let mut records = store.get(&keys).await.unwrap();
        let random = records[0].as_ref().unwrap().id;
        records.iter_mut().for_each(|record| record.as_mut().unwrap().id = random);
        let first = ChangeQuery { namespace: NAMESPACE.to_owned(), limit: RECORDS, ..ChangeQuery::default() };
        let changes = store.changes(WorkspaceId::DEFAULT, &first).await.unwrap().changes;
        let namespace = store.namespaces(WorkspaceId::DEFAULT, &NamespaceQuery::by_name(NAMESPACE)).await.unwrap();
        let shown = format!("{:?} {namespace:?}", &records[1..]);
        // The next op continues the numbers.
        let ops = Ops::new(Vec::new());
        ops.apply(&*store, &[ops.op(increment(record_key(7)))]).await.unwrap();
        let next = ChangeQuery { after: RECORDS as u64, ..first };
        assert_eq!(store.changes(WorkspaceId::DEFAULT, &next).await.unwrap().changes[0].number, RECORDS as u64 + 1);
        (shown, changes)
    }

    async fn check(filled: &Site, written: &Site) {
        fill(filled, RECORDS, at()).await.unwrap();
        let filled = contents(ground::open(filled).await.unwrap().records).await;
        let store = ground::open(written).await.unwrap().records;
        write(&*store).await;
        let written = contents(store).await;
        assert_eq!(filled.0.replace(random_id(&filled.0), ""), written.0.replace(random_id(&written.0), ""));
        assert_eq!(filled.1, written.1);
    }

    /// The id that all shown records have.
    fn random_id(shown: &str) -> &str {
        shown.split("RecordId(").nth(1).and_then(|rest| rest.split(')').next()).unwrap()
    }

    #[tokio::test]
    async fn statements_leave_what_ops_leave() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        check(&Site::Sqlite(one.path().to_owned()), &Site::Sqlite(other.path().to_owned())).await;
        let cluster = Cluster::shared();
        let (one, other) = (cluster.database(), cluster.database());
        check(&Site::Postgres(one.url()), &Site::Postgres(other.url())).await;
    }
}
